"""Publishes the event of a call to the queue, and answers once the broker has it."""

import json
import os
import uuid

import pika


def handle(event):
    message_id = str(uuid.uuid4())
    properties = pika.BasicProperties(content_type="application/json", delivery_mode=2, message_id=message_id)
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", os.environ["QUEUE"], json.dumps(event).encode(), properties, mandatory=True)
    finally:
        connection.close()
    return {"queued": message_id}, 202
