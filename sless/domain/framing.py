"""Numbered messages on a pipe between two processes of sless. Pure."""

import struct

_HEAD = struct.Struct("<QI")
"""Number and length."""


def message_of(number: int, data: bytes) -> bytes:
    return _HEAD.pack(number, len(data)) + data


def take_messages(received: bytearray) -> list[tuple[int, bytes]]:
    """Removes all complete messages from the front of what has been received."""
    found, at = [], 0
    while len(received) - at >= _HEAD.size:
        number, length = _HEAD.unpack_from(received, at)
        start = at + _HEAD.size
        if len(received) - start < length:
            break
        found.append((number, bytes(received[start : start + length])))
        at = start + length
    del received[:at]
    return found
