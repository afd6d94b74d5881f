"""One connection to a broker, from the address check to its end."""

import asyncio
import logging
import ssl
from typing import Any

import aiormq
from aiormq import exceptions
from aiormq.connection import TransportFactory
from yarl import URL

from sless._version import __version__
from sless.broker.channel import Channel
from sless.broker.faults import BrokerError, reason_of, translated, unreachable
from sless.broker.reader import BrokerLimits, Budget, open_stream
from sless.domain.amqp import BrokerUrl
from sless.outbound import Outbound

CONNECT_SEC = 15.0
HEARTBEAT_SEC = 20
RPC_SEC = 20.0
CLOSE_SEC = 5.0

# What goes wrong with a tenant's broker is told in the trigger's message, not in the server's log.
for _name in ("aiormq", "aiormq.connection", "aiormq.channel"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class BrokerConnection:
    """Ends once and for all; `Pool` makes the next one."""

    def __init__(self, inner: aiormq.Connection, budget: Budget) -> None:
        self._inner = inner
        self.budget = budget

    @property
    def closed(self) -> bool:
        return not self._inner.is_opened

    async def channel(self) -> Channel:
        """Raises BrokerError."""
        with translated("cannot open a channel"):
            return Channel(await self._inner.channel(timeout=RPC_SEC))

    async def has_queue(self, name: str) -> bool:
        """Asks on a channel of its own, which a "no" closes. Raises BrokerError."""
        with translated(f'cannot look at queue "{name}"'):
            channel = await self._inner.channel(publisher_confirms=False, timeout=RPC_SEC)
            try:
                await channel.queue_declare(name, passive=True, timeout=RPC_SEC)
            except exceptions.ChannelNotFoundEntity:
                return False
            await channel.close()
            return True

    async def ensure_queue(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """One that is there stays as it is, whoever made it and however. Raises BrokerError."""
        if await self.has_queue(name):
            return
        with translated(f'cannot make queue "{name}"'):
            channel = await self._inner.channel(publisher_confirms=False, timeout=RPC_SEC)
            await channel.queue_declare(name, durable=True, arguments=arguments, timeout=RPC_SEC)
            await channel.close()

    async def close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SEC):
                await self._inner.close()
        except (exceptions.AMQPError, OSError, RuntimeError, TimeoutError):
            pass  # it was gone already


async def open_connection(url: BrokerUrl, outbound: Outbound | None, limits: BrokerLimits) -> BrokerConnection:
    """`outbound` checks the address; None: the operator's own broker, which may be anywhere. Raises BrokerError."""
    budget = Budget(limits)
    inner = aiormq.Connection(_library_url(url), transport_factory=_Transport(url, outbound, budget))
    with translated(unreachable(url)):
        try:
            async with asyncio.timeout(CONNECT_SEC):
                await inner.connect(client_properties={"connection_name": "sless", "product": "sless", "version": __version__})
        except (exceptions.AMQPConnectionError, exceptions.IncompatibleProtocolError, exceptions.InvalidFrameError) as error:
            raise BrokerError(f"{unreachable(url)}: {_first_reason_of(url, error)}") from error
    return BrokerConnection(inner, budget)


def _first_reason_of(url: BrokerUrl, error: BaseException) -> str:
    """What is no broker closes the connection, or answers something else, before it has said anything. One that knows the user and
    closes all the same does so for the vhost; of its words the library keeps no more than the frame's name."""
    if isinstance(error, exceptions.InvalidFrameError) and "Connection.Close" in str(error):
        return f'vhost "{url.vhost}" not found, or user "{url.user}" may not use it'
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.ConnectionClosed | exceptions.ConnectionNotAllowed):
        return reason_of(error)
    if isinstance(error.__cause__, asyncio.IncompleteReadError) or not isinstance(error.__cause__, OSError):
        return "what answers there does not speak AMQP 0-9-1"
    return reason_of(error)


def _library_url(url: BrokerUrl) -> URL:
    return URL.build(
        scheme="amqps" if url.tls else "amqp", user=url.user, password=url.password, host=url.host, port=url.port,
        path="/" + url.vhost, query={"heartbeat": str(HEARTBEAT_SEC)},
    )  # fmt: skip


class _Transport(TransportFactory):
    def __init__(self, url: BrokerUrl, outbound: Outbound | None, budget: Budget) -> None:
        self._url = url
        self._budget = budget
        self._outbound = outbound

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Whatever the library says, to the address that was checked and to no other."""
        host, port = self._url.host, self._url.port
        address = host if self._outbound is None else await asyncio.to_thread(self._outbound.address_of, host, port)
        tls: dict[str, Any] = {}
        if self._url.tls:
            tls = {"ssl": await asyncio.to_thread(ssl.create_default_context), "server_hostname": host}
        return await open_stream(address, port, self._budget, **tls)
