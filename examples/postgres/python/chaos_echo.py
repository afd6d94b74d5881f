import json


def echo(event):
    """Any JSON value comes back, with what it is."""
    keys = sorted(event) if isinstance(event, dict) else []
    return {"echo": event, "keys": keys, "size_bytes": len(json.dumps(event)), "type": type(event).__name__}
