"""Cache of answer heads: an instance's answer with a known head need not be parsed, nor its head rewritten for the caller.

Except for lengths, answers of a function mostly have the same head. The cache only holds heads that the parser has accepted, of answers
that were framed by a length, arrived in one packet and left the connection open; so the same bytes at the same position mean the same.
Memory is bounded per instance.
"""

from typing import NamedTuple

from sless.proxy.request import Headers

_MOST_HEADS = 32
_MOST_BYTES = 2048
END = b"\r\n\r\n"


class KnownHead(NamedTuple):
    """The head for callers: status line and headers, without X-Request-Id and the final empty line."""

    head: bytes
    fault: str | None
    error: str | None


class KnownAnswer:
    __slots__ = ("headers", "length", "on_own_host", "on_shared_host", "status")

    def __init__(self, status: int, headers: Headers, length: int) -> None:
        self.status = status
        self.headers = headers
        self.length = length
        self.on_own_host: KnownHead | None = None
        self.on_shared_host: KnownHead | None = None


class KnownAnswers:
    """Known answers of one instance."""

    __slots__ = ("_by_head",)

    def __init__(self) -> None:
        self._by_head: dict[bytes, KnownAnswer] = {}

    def find(self, head: bytes) -> KnownAnswer | None:
        return self._by_head.get(head)

    def learn(self, packet: bytes, status: int, headers: Headers) -> None:
        """`packet` is one whole answer, which the parser has accepted."""
        size = packet.find(END) + len(END)
        if size > _MOST_BYTES or not _is_framed_by_length(status, headers, len(packet) - size):
            return
        if len(self._by_head) >= _MOST_HEADS:
            self._by_head.clear()
        self._by_head[packet[:size]] = KnownAnswer(status, headers, len(packet) - size)


def _is_framed_by_length(status: int, headers: Headers, length: int) -> bool:
    if any(name == b"transfer-encoding" for name, _ in headers):
        return False
    lengths = [value for name, value in headers if name == b"content-length"]
    return lengths == [b"%d" % length] or (status in (204, 304) and length == 0)
