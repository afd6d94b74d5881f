"""Handlers as written for AWS Lambda behind an HTTP API."""

import json


def handler(event, context):
    assert context.aws_request_id
    assert context.get_remaining_time_in_millis() > 0
    return {
        "statusCode": 201,
        "headers": {"X-From": "lambda", "Content-Type": "application/json"},
        "cookies": ["c=3"],
        "body": json.dumps(event),
    }


def keys(event, context):
    return sorted(event)


def plain(event, context):
    return {"message": "hi"}
