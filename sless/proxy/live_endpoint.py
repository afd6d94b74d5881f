"""One instance in the proxy: its number of calls and its idle connections."""

import asyncio
from collections.abc import Callable

from sless.domain.model import Endpoint
from sless.proxy.connection import UpstreamConnection
from sless.proxy.known_answer import KnownAnswers

_SUSPENDED_SEC = 0.2
_CONNECT_SEC = 5.0


class LiveEndpoint:
    """Counts concurrent calls; `live_route` enforces the bound when it picks an instance."""

    def __init__(self, endpoint: Endpoint, slots: int) -> None:
        self.endpoint = endpoint
        self.slots = slots
        self.active = 0
        self.calls = 0
        """Calls so far; the log puller compares it."""
        self.counted = 0
        """`calls` at the last sample of the demand meter."""
        self.gone = False
        """Draining, or no longer in the table: it gets no new calls, and its connections are closed once idle."""
        self.suspect = False
        """A call timed out here, and the instance has not answered a health check since (`suspects`)."""
        self.end_reason = ""
        """Why it ended, once known from the backend (`failure`)."""
        self.calls_at_end = 0
        """Number of calls when its connections broke off; reset to 0 if the backend reports that it has not ended."""
        self._known = KnownAnswers()
        self._idle: list[UpstreamConnection] = []
        self._suspended_until = 0.0

    def suspended(self, now: float) -> bool:
        """Whether it gets no calls for now: it is suspect, or could not be reached a moment ago."""
        return self.suspect or now < self._suspended_until

    def suspend(self, now: float) -> None:
        self._suspended_until = now + _SUSPENDED_SEC

    def find_idle(self) -> UpstreamConnection | None:
        """An open idle connection; closes stale ones that it finds first."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            connection.abort()
        return None

    async def connection(self) -> UpstreamConnection:
        """An idle connection or a new one. Raises OSError (also TimeoutError) when the instance cannot be reached."""
        return self.find_idle() or await connect(self.endpoint.address, lambda: UpstreamConnection(self._lost, self._known))

    def give_back(self, connection: UpstreamConnection) -> None:
        if connection.reusable and not self.gone and not connection.closed:
            # The last packet may have filled the buffer of the previous caller and paused reading.
            connection.resume_reading()
            self._idle.append(connection)
        else:
            connection.abort()

    def retire(self) -> None:
        self.gone = True
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _lost(self, connection: UpstreamConnection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)


async def connect(address: str, make: Callable[[], UpstreamConnection]) -> UpstreamConnection:
    """`address` as in Endpoint. Raises OSError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_CONNECT_SEC):
        if address.startswith("unix:"):
            _, connection = await loop.create_unix_connection(make, address[5:])
        else:
            host, _, port = address.rpartition(":")
            _, connection = await loop.create_connection(make, host.strip("[]"), int(port))
    return connection
