"""Publishes the event of a call to the queue, and returns once the broker has confirmed it."""

import json
import os
import time
import uuid

import pika
from pika.exceptions import UnroutableError

ATTEMPTS = 15


def handle(event):
    message_id = str(uuid.uuid4())
    properties = pika.BasicProperties(content_type="application/json", delivery_mode=2, message_id=message_id)
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        publish(channel, json.dumps(event).encode(), properties)
    finally:
        connection.close()
    return {"queued": message_id}, 202


def publish(channel, body, properties):
    """The trigger declares the queue when it starts to listen, which may be shortly after `terraform apply`."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            channel.basic_publish("", os.environ["QUEUE"], body, properties, mandatory=True)
            return
        except UnroutableError:
            if attempt == ATTEMPTS:
                raise
            time.sleep(1)
