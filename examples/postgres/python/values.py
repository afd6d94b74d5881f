"""Converts a careless caller's input to safe values."""

import math


def fields_of(event):
    """The event's fields; none if it is not an object."""
    return event if isinstance(event, dict) else {}


def text_of(value, default=""):
    """PostgreSQL texts cannot contain NUL, nor UTF-8 lone surrogates."""
    if not isinstance(value, str):
        return default
    return value.replace("\0", "").encode("utf-8", "replace").decode()


def number_of(value, default, least=0, most=None):
    """A whole number within bounds; the default for anything else, and for numbers below the minimum."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (isinstance(value, float) and not math.isfinite(value)):
        return default
    if value < least:
        return default
    return int(value) if most is None else min(int(value), most)


def bad_request(message):
    return {"statusCode": 400, "body": {"error": message}}
