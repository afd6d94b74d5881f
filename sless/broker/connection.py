"""One connection to a broker, from the address check to its end."""

import asyncio
import logging
import ssl
from concurrent.futures import ThreadPoolExecutor
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
_RESOLVERS = ThreadPoolExecutor(max_workers=8, thread_name_prefix="broker-names")
"""Separate threads, so that slow name resolution delays only other brokers."""

# Problems of a tenant's broker belong in the trigger's message, not in the server's log.
for _name in ("aiormq", "aiormq.connection", "aiormq.channel"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class BrokerConnection:
    """Used once: after its end `Pool` opens another."""

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
        """Uses a separate channel, which the broker closes if the queue does not exist. Raises BrokerError."""
        with translated(f'cannot check queue "{name}"'):
            channel = await self._inner.channel(publisher_confirms=False, timeout=RPC_SEC)
            try:
                await channel.queue_declare(name, passive=True, timeout=RPC_SEC)
            except exceptions.ChannelNotFoundEntity:
                return False
            await channel.close()
            return True

    async def ensure_queue(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Leaves an existing queue as it is. Raises BrokerError."""
        if await self.has_queue(name):
            return
        with translated(f'cannot create queue "{name}"'):
            channel = await self._inner.channel(publisher_confirms=False, timeout=RPC_SEC)
            await channel.queue_declare(name, durable=True, arguments=arguments, timeout=RPC_SEC)
            await channel.close()

    async def close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SEC):
                await self._inner.close()
        except (exceptions.AMQPError, OSError, RuntimeError, TimeoutError):
            pass  # it was closed already


async def open_connection(url: BrokerUrl, outbound: Outbound | None, limits: BrokerLimits) -> BrokerConnection:
    """`outbound` checks the address; it is None for the operator's broker, whose address is not checked. Raises BrokerError."""
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
    """The reason if the connection could not be opened. A server that is not a broker closes it or answers something else. A broker that
    accepts the user but closes it does so because of the vhost, of which the library only keeps the name of the frame."""
    if isinstance(error, exceptions.InvalidFrameError) and "Connection.Close" in str(error):
        return f'vhost "{url.vhost}" not found, or user "{url.user}" may not use it'
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.ConnectionClosed | exceptions.ConnectionNotAllowed):
        return reason_of(error)
    if isinstance(error.__cause__, asyncio.IncompleteReadError) or not isinstance(error.__cause__, OSError):
        return "the server there does not speak AMQP 0-9-1"
    return reason_of(error)


def _library_url(url: BrokerUrl) -> URL:
    return URL.build(
        scheme="amqps" if url.tls else "amqp", user=url.user, password=url.password, host=url.host, port=url.port,
        path="/" + url.vhost, query={"heartbeat": str(HEARTBEAT_SEC)},
    )  # fmt: skip


async def _resolve(outbound: Outbound, host: str, port: int) -> str:
    return await asyncio.get_running_loop().run_in_executor(_RESOLVERS, outbound.address_of, host, port)


class _Transport(TransportFactory):
    def __init__(self, url: BrokerUrl, outbound: Outbound | None, budget: Budget) -> None:
        self._url = url
        self._budget = budget
        self._outbound = outbound

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to the checked address, whatever the library passes."""
        host, port = self._url.host, self._url.port
        address = host if self._outbound is None else await _resolve(self._outbound, host, port)
        tls: dict[str, Any] = {}
        if self._url.tls:
            tls = {"ssl": await asyncio.to_thread(ssl.create_default_context), "server_hostname": host}
        return await open_stream(address, port, self._budget, **tls)
