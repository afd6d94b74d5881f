"""Written for AWS Lambda behind an HTTP API (payload format 2.0); runs here unchanged with event_format "aws-http-v2"."""

import base64
import json

STOCK = {"apple": 7, "pear": 0}


def lambda_handler(event, context):
    http = event["requestContext"]["http"]
    print(f"{http['method']} {event['rawPath']} {context.aws_request_id} {context.get_remaining_time_in_millis()} ms left")
    if http["method"] == "GET":
        name = (event.get("queryStringParameters") or {}).get("fruit", "apple")
        return answer(200 if name in STOCK else 404, {"fruit": name, "stock": STOCK.get(name)})
    if http["method"] == "POST":
        raw = event.get("body") or ""
        text = base64.b64decode(raw).decode() if event.get("isBase64Encoded") else raw
        try:
            order = json.loads(text)
        except ValueError:
            return answer(400, {"error": "expected JSON"})
        return answer(201, {"ordered": order, "for": event["headers"].get("x-customer"), "cookies": event.get("cookies", [])})
    return answer(405, {"error": "expected GET or POST"})


def answer(status, body):
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json"},
        "cookies": ["seen=1; Path=/"],
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }
