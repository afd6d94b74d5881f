"""Repairs frames that the library cannot parse. Names in AMQP are bytes, and publishers may use an encoding other than UTF-8. Such a
message would end the connection on each delivery, and later messages would never arrive."""

import contextlib
from collections.abc import Callable

from pamqp import exceptions, frame

from sless.broker.properties import table_of

METHOD_FRAME, HEADER_FRAME = 1, 2
_DELIVER = b"\x00\x3c\x00\x3c"
_END = b"\xce"
_MAX_REPAIRS = 64
"""Maximum number of names in one message that are repaired."""
_FLAGS_AT = 12
"""Offset in a header frame, after class, weight and the size of the body."""
_HEADERS_FLAG = b"\x20\x00"
_TIME_BIT = 6
_SIZES: dict[int, Callable[[bytes], int]] = {
    **dict.fromkeys((15, 14, 10, 9, 8, 7), lambda data: 1 + data[0]),  # short texts
    13: lambda data: 4 + int.from_bytes(data[:4], "big"),  # the headers
    **dict.fromkeys((12, 11), lambda data: 1),
}
"""Sizes in bytes of the properties before the time, by the bit of their flag."""
_DROPPED = table_of({"x-sless-headers-dropped": True})


def readable(frame_type: int, payload: bytes) -> bytes:
    """The payload of a frame unchanged if it can be parsed; else one of the same length, with `?` for bytes that are not UTF-8, and without
    a time that is out of range. If the properties still cannot be parsed (deeply nested tables), they are dropped."""
    if frame_type not in (METHOD_FRAME, HEADER_FRAME) or (frame_type == METHOD_FRAME and payload[:4] != _DELIVER):
        return payload
    known = payload
    for _ in range(_MAX_REPAIRS):
        problem = _problem_of(frame_type, known)
        if problem is None:
            return known
        if isinstance(problem, UnicodeDecodeError):
            repaired = _repaired(known, bytes(problem.object))
        else:
            repaired = _without_time(known) if frame_type == HEADER_FRAME else known
        if repaired == known:
            break
        known = repaired
    return _bare(payload) if frame_type == HEADER_FRAME else payload


def _problem_of(frame_type: int, payload: bytes) -> BaseException | None:
    try:
        frame.unmarshal(bytes([frame_type]) + b"\0\1" + len(payload).to_bytes(4, "big") + payload + _END)
    except exceptions.PAMQPException as error:
        return error.__cause__ or error
    # Errors of struct, datetime and recursion on arbitrary bytes.
    except (ValueError, ArithmeticError, LookupError, OSError, RecursionError, TypeError) as error:
        return error
    return None


def _repaired(payload: bytes, name: bytes) -> bytes:
    with contextlib.suppress(ValueError):  # longer than a name
        size = bytes([len(name)])
        return payload.replace(size + name, size + name.decode(errors="surrogateescape").encode(errors="replace"))
    return payload


def _without_time(payload: bytes) -> bytes:
    """The header frame without the property `timestamp`: moves up what follows it, and pads the end."""
    flags = int.from_bytes(payload[_FLAGS_AT : _FLAGS_AT + 2], "big")
    if not flags & 1 << _TIME_BIT or flags & 1:
        return payload
    at = _FLAGS_AT + 2
    for bit in range(15, _TIME_BIT, -1):
        if flags & 1 << bit and at < len(payload):
            at += _SIZES[bit](payload[at:])
    kept = (flags & ~(1 << _TIME_BIT)).to_bytes(2, "big")
    return (payload[:_FLAGS_AT] + kept + payload[_FLAGS_AT + 2 : at] + payload[at + 8 :]).ljust(len(payload), b"\0")


def _bare(payload: bytes) -> bytes:
    """A header frame without properties, padded to its length."""
    room = len(payload) - _FLAGS_AT - len(_HEADERS_FLAG)
    flags = _HEADERS_FLAG + _DROPPED if room >= len(_DROPPED) else b"\0\0"
    return (payload[:_FLAGS_AT] + flags).ljust(len(payload), b"\0")
