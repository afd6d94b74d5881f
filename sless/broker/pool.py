"""Pool of connections. Triggers of a tenant that use the same broker as the same user share one. Tenants do not share connections, so that
one cannot block another."""

import asyncio
import random
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from sless.broker.connection import BrokerConnection, open_connection
from sless.broker.faults import BrokerError
from sless.broker.reader import BrokerLimits
from sless.domain.amqp import BrokerUrl
from sless.domain.durations import backoff_sec
from sless.outbound import Outbound

CHANNELS_PER_CONNECTION = 200
"""Triggers per connection. RabbitMQ allows 2,047 channels; checking a queue temporarily takes another one."""
MAX_REST_SEC = 15.0
OPENING_PER_TENANT = 2
"""Maximum number of connections being opened at the same time."""

LinkKey = tuple[str, BrokerUrl, bool]


@dataclass(eq=False, slots=True)
class PooledConnection:
    """Holds one connection at a time for `users` triggers. After a failure it waits before it connects again, and repeats the error."""

    key: LinkKey
    users: int = 0
    connection: BrokerConnection | None = None
    failures: int = 0
    rests_until: float = 0.0
    error: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Pool:
    """Used on one event loop."""

    def __init__(self, outbound: Outbound, limits: BrokerLimits | None = None) -> None:
        self._outbound = outbound
        self._limits = limits or BrokerLimits()
        self._links: dict[LinkKey, list[PooledConnection]] = {}
        self._opening: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """Locks by namespace while they are in use, since connecting may long occupy one of the few threads that resolve names."""

    def join(self, namespace: str, url: BrokerUrl, *, trusted: bool) -> PooledConnection:
        """A link with room for one more user, who must `leave` it. `trusted`: the operator's URL, whose address is not checked."""
        links = self._links.setdefault((namespace, url, trusted), [])
        link = next((item for item in links if item.users < CHANNELS_PER_CONNECTION), None)
        if link is None:
            links.append(link := PooledConnection((namespace, url, trusted)))
        link.users += 1
        return link

    async def leave(self, link: PooledConnection) -> None:
        """Leaves the link. The last user closes the connection."""
        link.users -= 1
        if link.users:
            return
        links = self._links[link.key]
        links.remove(link)
        if not links:
            del self._links[link.key]
        if link.connection is not None:
            await link.connection.close()

    async def connection(self, link: PooledConnection) -> BrokerConnection:
        """The open connection or a new one. Raises BrokerError."""
        async with link.lock:
            if link.connection is not None and not link.connection.closed:
                return link.connection
            loop = asyncio.get_running_loop()
            if loop.time() < link.rests_until:
                raise BrokerError(link.error)
            _, url, trusted = link.key
            try:
                async with self._opening.setdefault(link.key[0], asyncio.Semaphore(OPENING_PER_TENANT)):
                    link.connection = await open_connection(url, None if trusted else self._outbound, self._limits)
            except BrokerError as error:
                link.failures += 1
                link.error = str(error)
                link.rests_until = loop.time() + backoff_sec(link.failures, first_sec=0.5, max_sec=MAX_REST_SEC) * random.uniform(0.8, 1.0)
                raise
            link.failures = 0
            return link.connection
