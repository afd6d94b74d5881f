"""Encodes the properties of outgoing messages, with headers exactly as they were read. The library itself halves the precision of floats
and cannot write bytes."""

import struct
from collections.abc import Mapping
from typing import Any

from pamqp import encode
from pamqp.commands import Basic

from sless.domain.messages import Message

_PERSISTENT = 2


def properties_of(message: Message, most_bytes: int) -> Basic.Properties:
    """Properties of a persistent message. If the headers exceed `most_bytes`, keeps only our own, which say what happened to the message:
    they would not fit into one frame, and the broker would close the connection on each attempt."""
    headers = dict(message.headers)
    if not _fits(headers, most_bytes):
        headers = {name: value for name, value in headers.items() if name.startswith("x-sless-")} | {"x-sless-headers-dropped": True}
    return _Properties(
        headers=headers, delivery_mode=_PERSISTENT, message_id=message.message_id, correlation_id=message.correlation_id,
        reply_to=message.reply_to, content_type=message.content_type, content_encoding=message.content_encoding,
        message_type=message.type, app_id=message.app_id, priority=message.priority, timestamp=message.timestamp,
    )  # fmt: skip


class _Properties(Basic.Properties):
    def encode_property(self, name: str, value: Any) -> bytes:
        return table_of(value) if name == "headers" else super().encode_property(name, value)


def table_of(table: Mapping[str, Any]) -> bytes:
    """Raises TypeError, ValueError or OverflowError for values that AMQP cannot represent."""
    body = b"".join(encode.short_string(name) + value_of(value) for name, value in table.items())
    return struct.pack(">I", len(body)) + body


def value_of(value: Any) -> bytes:
    match value:
        case float():
            return b"d" + struct.pack(">d", value)
        case bytes():
            # Text that is not UTF-8 arrives as bytes.
            return b"S" + struct.pack(">I", len(value)) + value
        case Mapping():
            return b"F" + table_of(value)
        case list():
            body = b"".join(map(value_of, value))
            return b"A" + struct.pack(">I", len(body)) + body
    return encode.encode_table_value(value)


def _fits(headers: Mapping[str, Any], most_bytes: int) -> bool:
    try:
        return len(table_of(headers)) <= most_bytes
    except (TypeError, ValueError, OverflowError, struct.error):
        return False
