"""Limits the bytes read from a broker, because tenants' brokers are not trusted, and all tenants share the server's memory."""

import asyncio
import errno
import struct
from dataclasses import dataclass
from typing import Any

from sless.broker.readable import HEADER_FRAME, readable

_HEADER_BYTES = 15
_HEARTBEAT = b"\x08" + b"\0\0" + b"\0\0\0\0" + b"\xce"
BEAT_SEC = 10.0
"""Interval well below the library's time-out for a connection without frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """`held_bytes` limits the bodies of unsettled messages per connection, above which reading pauses. `message_bytes` limits one message
    and is checked before its body is read; the default is RabbitMQ's own limit."""

    held_bytes: int = 64 * 2**20
    message_bytes: int = 128 * 2**20


class Budget:
    """Counts the bytes held by one connection. Used on one event loop."""

    def __init__(self, limits: BrokerLimits) -> None:
        self.limits = limits
        self._held_bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    def take(self, size: int) -> None:
        self._held_bytes += size
        if self._held_bytes > self.limits.held_bytes:
            self._room.clear()

    def give(self, size: int) -> None:
        self._held_bytes -= size
        if self._held_bytes <= self.limits.held_bytes:
            self._room.set()

    @property
    def full(self) -> bool:
        return not self._room.is_set()

    async def has_room(self, within_sec: float) -> bool:
        try:
            async with asyncio.timeout(within_sec):
                return await self._room.wait()
        except TimeoutError:
            return False


class BoundedReader(asyncio.StreamReader):
    """Replaces the library's reader. It reads a frame in three parts: type (1 byte), channel and length (6 bytes), the rest. The rest of a
    header frame contains the size of the body. Raises OSError for a body that is too large.

    While reading pauses, the library gets made-up heartbeats: functions may take longer than its time-out, and when it closes a
    connection, the broker delivers all unsettled messages again."""

    def __init__(self, budget: Budget, loop: asyncio.AbstractEventLoop, beat_sec: float = BEAT_SEC) -> None:
        super().__init__(loop=loop)
        self._budget = budget
        self._beat_sec = beat_sec
        self._piece = 0
        self._type = 0
        self._made = b""

    async def readexactly(self, n: int) -> bytes:
        piece, self._piece = self._piece, (self._piece + 1) % 3
        if piece == 0 and self._budget.full and not await self._budget.has_room(self._beat_sec):
            self._made = _HEARTBEAT
        if self._made:
            data, self._made = self._made[:n], self._made[n:]
            return data
        data = await super().readexactly(n)
        match piece:
            case 0:
                self._type = data[0]
            case 2:
                self._check_size(data)
                return readable(self._type, data[:-1]) + data[-1:]
        return data

    def _check_size(self, data: bytes) -> None:
        if self._type != HEADER_FRAME or len(data) < _HEADER_BYTES:
            return
        (size,) = struct.unpack_from(">Q", data, 4)
        if size > (most := self._budget.limits.message_bytes):
            raise OSError(errno.EMSGSIZE, f"a message of {size:,} bytes is over the limit of {most:,}; take it out of the queue")


async def open_stream(host: str, port: int, budget: Budget, **tls: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """As asyncio.open_connection, with a BoundedReader. Raises OSError."""
    loop = asyncio.get_running_loop()
    reader = BoundedReader(budget, loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, host, port, **tls)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
