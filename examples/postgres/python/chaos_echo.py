import json


def echo(event):
    """Returns any JSON value with its type."""
    keys = sorted(event) if isinstance(event, dict) else []
    return {"echo": event, "keys": keys, "size_bytes": len(json.dumps(event)), "type": type(event).__name__}
