"""What comes from a broker, bounded: a tenant's broker is a stranger's program, and the server's memory belongs to all tenants."""

import asyncio
import errno
import struct
from dataclasses import dataclass

_HEADER_FRAME = 2
_HEADER_BYTES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`held_bytes`: bodies of messages that are not settled, per connection; over it nothing more is read (the broker notices nothing but a
    slow reader). `message_bytes`: RabbitMQ's own limit; a body grows in memory before anybody may look at it."""

    held_bytes: int = 64 * 2**20
    message_bytes: int = 128 * 2**20


class Budget:
    """Bytes held by one connection. On one event loop."""

    def __init__(self, limits: Limits) -> None:
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

    async def room(self) -> None:
        await self._room.wait()


class BoundedReader(asyncio.StreamReader):
    """The library reads a frame in three pieces: its type (1 byte), channel and length (6), the rest. A header's rest tells how long the
    body behind it will be. Raises OSError for one that is too long."""

    def __init__(self, budget: Budget, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._budget = budget
        self._type = 0

    async def readexactly(self, n: int) -> bytes:
        if self._budget.full:
            await self._budget.room()
        data = await super().readexactly(n)
        if n == 1:
            self._type = data[0]
        elif self._type == _HEADER_FRAME and n >= _HEADER_BYTES:
            (size,) = struct.unpack_from(">Q", data, 4)
            if size > (most := self._budget.limits.message_bytes):
                raise OSError(errno.EMSGSIZE, f"a message of {size:,} bytes is over the limit of {most:,}; take it out of the queue")
        return data


async def open_stream(host: str, port: int, budget: Budget, **tls: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """As asyncio.open_connection, with a reader of ours. Raises OSError."""
    loop = asyncio.get_running_loop()
    reader = BoundedReader(budget, loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, host, port, **tls)  # type: ignore[call-overload]
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
