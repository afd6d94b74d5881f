"""One instance as the proxy uses it: how many calls it has, and its idle connections."""

import asyncio
from collections.abc import Callable

from sless.domain.model import Endpoint
from sless.proxy.connection import Connection

_SUSPENDED_SEC = 0.2
_CONNECT_SEC = 5.0


class Target:
    """Calls at once are counted here and bounded by whoever picks targets (`entry`)."""

    def __init__(self, endpoint: Endpoint, slots: int) -> None:
        self.endpoint = endpoint
        self.slots = slots
        self.active = 0
        self.calls = 0
        """Calls ever begun; the log puller compares."""
        self.gone = False
        """No longer in the table, or draining: no new call, connections are closed as they fall idle."""
        self.doubted = False
        """A call went over its time here, and nothing has been heard of it since (`doubts`)."""
        self._idle: list[Connection] = []
        self._suspended_until = 0.0

    def suspended(self, now: float) -> bool:
        """It could not be reached a moment ago, or does not answer."""
        return self.doubted or now < self._suspended_until

    def suspend(self, now: float) -> None:
        self._suspended_until = now + _SUSPENDED_SEC

    def find_idle(self) -> Connection | None:
        """An open connection that carries nothing; stale ones are closed on the way."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            connection.abort()
        return None

    async def connection(self) -> Connection:
        """An idle connection or a new one. Raises OSError (also TimeoutError) when the instance cannot be reached."""
        return self.find_idle() or await connect(self.endpoint.address, self._lost)

    def give_back(self, connection: Connection) -> None:
        if connection.reusable and not self.gone and not connection.closed:
            # The last packet of an answer may have filled the caller's buffer: that is no matter of the next call's.
            connection.resume_reading()
            self._idle.append(connection)
        else:
            connection.abort()

    def retire(self) -> None:
        self.gone = True
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _lost(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)


async def connect(address: str, lost: Callable[[Connection], None]) -> Connection:
    """`address` as in Endpoint. Raises OSError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_CONNECT_SEC):
        if address.startswith("unix:"):
            _, connection = await loop.create_unix_connection(lambda: Connection(lost), address[5:])
        else:
            host, _, port = address.rpartition(":")
            _, connection = await loop.create_connection(lambda: Connection(lost), host.strip("[]"), int(port))
    return connection
