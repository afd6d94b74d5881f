"""Frames that the library cannot read, made readable: AMQP's names are bytes, and any broker holds what somebody published with names in
another encoding. One such message would end the connection each time it comes, for ever, and the messages behind it with it."""

import contextlib

from pamqp import exceptions, frame

from sless.broker.properties import table_of

METHOD_FRAME, HEADER_FRAME = 1, 2
_DELIVER = b"\x00\x3c\x00\x3c"
_END = b"\xce"
_MOST_MENDED = 64
"""Names of one message that are mended one by one."""
_FLAGS_AT = 12
"""In a header frame: behind class, weight and the size of the body."""
_HEADERS_FLAG = b"\x20\x00"
_DROPPED = table_of({"x-sless-headers-dropped": True})


def readable(frame_type: int, payload: bytes) -> bytes:
    """The payload of a frame, as it came whenever it can be read; else one of the same length, in which bytes that are no UTF-8 are `?`. A
    message whose properties cannot be read even so (a time out of all calendars, tables within tables) comes without them."""
    if frame_type not in (METHOD_FRAME, HEADER_FRAME) or (frame_type == METHOD_FRAME and payload[:4] != _DELIVER):
        return payload
    known = payload
    for _ in range(_MOST_MENDED):
        problem = _problem_of(frame_type, known)
        if problem is None:
            return known
        if not isinstance(problem, UnicodeDecodeError) or (mended := _mended(known, bytes(problem.object))) == known:
            break
        known = mended
    return _bare(payload) if frame_type == HEADER_FRAME else payload


def _problem_of(frame_type: int, payload: bytes) -> BaseException | None:
    try:
        frame.unmarshal(bytes([frame_type]) + b"\0\1" + len(payload).to_bytes(4, "big") + payload + _END)
    except exceptions.PAMQPException as error:
        return error.__cause__ or error
    # What a stranger's bytes make of struct, datetime and recursion.
    except (ValueError, ArithmeticError, LookupError, OSError, RecursionError, TypeError) as error:
        return error
    return None


def _mended(payload: bytes, name: bytes) -> bytes:
    with contextlib.suppress(ValueError):  # longer than a name
        size = bytes([len(name)])
        return payload.replace(size + name, size + name.decode(errors="surrogateescape").encode(errors="replace"))
    return payload


def _bare(payload: bytes) -> bytes:
    """A header frame without properties; what is left behind them is passed over."""
    room = len(payload) - _FLAGS_AT - len(_HEADERS_FLAG)
    told = _HEADERS_FLAG + _DROPPED if room >= len(_DROPPED) else b"\0\0"
    return (payload[:_FLAGS_AT] + told).ljust(len(payload), b"\0")
