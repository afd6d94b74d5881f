"""Repairs frames that the library cannot parse. Names in AMQP are bytes, and publishers may use another encoding than UTF-8. One such
message would end the connection on each delivery, and the messages after it would never arrive."""

import contextlib

from pamqp import exceptions, frame

from sless.broker.properties import table_of

METHOD_FRAME, HEADER_FRAME = 1, 2
_DELIVER = b"\x00\x3c\x00\x3c"
_END = b"\xce"
_MAX_REPAIRS = 64
"""Names of one message that are repaired, one by one."""
_FLAGS_AT = 12
"""In a header frame: after class, weight and the size of the body."""
_HEADERS_FLAG = b"\x20\x00"
_DROPPED = table_of({"x-sless-headers-dropped": True})


def readable(frame_type: int, payload: bytes) -> bytes:
    """The payload of a frame unchanged if it can be parsed; else one of the same length, with `?` for bytes that are not UTF-8. If the
    properties still cannot be parsed (a time out of range, deeply nested tables), they are dropped."""
    if frame_type not in (METHOD_FRAME, HEADER_FRAME) or (frame_type == METHOD_FRAME and payload[:4] != _DELIVER):
        return payload
    known = payload
    for _ in range(_MAX_REPAIRS):
        problem = _problem_of(frame_type, known)
        if problem is None:
            return known
        if not isinstance(problem, UnicodeDecodeError) or (repaired := _repaired(known, bytes(problem.object))) == known:
            break
        known = repaired
    return _bare(payload) if frame_type == HEADER_FRAME else payload


def _problem_of(frame_type: int, payload: bytes) -> BaseException | None:
    try:
        frame.unmarshal(bytes([frame_type]) + b"\0\1" + len(payload).to_bytes(4, "big") + payload + _END)
    except exceptions.PAMQPException as error:
        return error.__cause__ or error
    # From struct, datetime and recursion on arbitrary bytes.
    except (ValueError, ArithmeticError, LookupError, OSError, RecursionError, TypeError) as error:
        return error
    return None


def _repaired(payload: bytes, name: bytes) -> bytes:
    with contextlib.suppress(ValueError):  # longer than a name
        size = bytes([len(name)])
        return payload.replace(size + name, size + name.decode(errors="surrogateescape").encode(errors="replace"))
    return payload


def _bare(payload: bytes) -> bytes:
    """A header frame without properties, padded to its length."""
    room = len(payload) - _FLAGS_AT - len(_HEADERS_FLAG)
    flags = _HEADERS_FLAG + _DROPPED if room >= len(_DROPPED) else b"\0\0"
    return (payload[:_FLAGS_AT] + flags).ljust(len(payload), b"\0")
