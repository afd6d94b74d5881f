"""Container logs, as the log subresource returns them."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

KEPT_BYTES = 16 * 2**20


@dataclass(slots=True)
class Log:
    """Lines of one run of one container. The last may be incomplete."""

    lines: list[tuple[float, bytes]] = field(default_factory=list)
    ended: bool = False
    _open: bytes = b""
    _size: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, data: bytes) -> None:
        *whole, self._open = (self._open + data).split(b"\n")
        for line in whole:
            self._add(line + b"\n")
        self._wake()

    def end(self) -> None:
        if self._open:
            self._add(self._open)
            self._open = b""
        self.ended = True
        self._wake()

    def _add(self, line: bytes) -> None:
        self.lines.append((time.time(), line))
        self._size += len(line)
        while self._size > KEPT_BYTES:
            self._size -= len(self.lines.pop(0)[1])

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _selected(self, query: dict[str, str]) -> list[tuple[float, bytes]]:
        chosen = self.lines
        if query.get("sinceSeconds"):
            least = time.time() - float(query["sinceSeconds"])
            chosen = [one for one in chosen if one[0] >= least]
        elif query.get("sinceTime"):
            least = datetime.fromisoformat(query["sinceTime"].replace("Z", "+00:00")).timestamp()
            chosen = [one for one in chosen if one[0] >= least]
        if query.get("tailLines"):
            count = int(query["tailLines"])
            chosen = chosen[-count:] if count else []
        return chosen

    def read(self, query: dict[str, str]) -> bytes:
        data = b"".join(_shown(self._selected(query), query))
        limit = int(query.get("limitBytes") or 0)
        return data[:limit] if limit else data

    async def follow(self, query: dict[str, str]) -> AsyncIterator[bytes]:
        first = self._selected(query)
        seen = len(self.lines)
        yield b"".join(_shown(first, query))
        while True:
            changed = self._changed
            fresh, seen = self.lines[seen:], len(self.lines)
            if fresh:
                yield b"".join(_shown(fresh, query))
            elif self.ended:
                return
            else:
                await changed.wait()

    def tail(self, lines: int, size: int) -> str:
        return b"".join(line for _, line in self.lines[-lines:])[-size:].decode(errors="replace")


def _shown(lines: list[tuple[float, bytes]], query: dict[str, str]) -> Iterator[bytes]:
    stamped = query.get("timestamps") == "true"
    for moment, line in lines:
        prefix = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode() if stamped else b""
        yield prefix + line
