"""A request that a connection repeats byte by byte, whose head need not be parsed again."""

from dataclasses import dataclass

from sless.proxy.request import Request

_MOST_BYTES = 4096
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Repeated:
    """`request` has been accepted for the fast path with this head; `size` is that of head and body."""

    head: bytes
    size: int
    request: Request


def find_repeated(packet: bytes, request: Request) -> Repeated | None:
    """The request as one to recognise again, if the packet consists of exactly this request; else None."""
    head_bytes = packet.find(_END) + len(_END)
    if head_bytes > _MOST_BYTES or len(packet) != head_bytes + request.length:
        return None
    return Repeated(packet[:head_bytes], len(packet), request)
