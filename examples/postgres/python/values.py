"""What a careless caller sent, as values that are safe to use."""

import math


def fields_of(event):
    """An event that is no object has no fields."""
    return event if isinstance(event, dict) else {}


def text_of(value, default=""):
    """PostgreSQL has no NUL in texts, and UTF-8 no lone surrogates."""
    if not isinstance(value, str):
        return default
    return value.replace("\0", "").encode("utf-8", "replace").decode()


def number_of(value, default, least=0, most=None):
    """A whole number in bounds; the default for what is no number or is below the least."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return default
    if value < least:
        return default
    return int(value) if most is None else min(int(value), most)


def bad_request(message):
    return {"statusCode": 400, "body": {"error": message}}
