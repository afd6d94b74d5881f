"""A listener on a real broker that calls a Python function, and a publisher."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiormq
from pamqp.commands import Basic

from sless import ids
from sless.broker import BrokerLimits, Pool
from sless.domain.amqp import parse_broker_url
from sless.domain.messages import MessageCall, MessageOutcome
from sless.outbound import outbound_of
from sless.reconcile.listener import Listener
from sless.reconcile.listens import Listen
from tests.services.rabbitmq import RabbitServer
from tests.waiting import pauses

OK = MessageOutcome(ok=True, request_id="r")
LOCAL = ("127.0.0.0/8",)
Handler = Callable[[MessageCall], Awaitable[MessageOutcome]]


def failed(error: str = "boom", **more: Any) -> MessageOutcome:
    return MessageOutcome(ok=False, request_id="r", error=error, **more)


async def succeed(call: MessageCall) -> MessageOutcome:
    return OK


@dataclass
class Function:
    """A `messages.MessageInvoker` that counts calls by body and tracks the peak concurrency."""

    handler: Handler = succeed
    calls: list[MessageCall] = field(default_factory=list)
    bodies: Counter[bytes] = field(default_factory=Counter)
    running: int = 0
    most: int = 0

    async def deliver(self, call: MessageCall) -> MessageOutcome:
        self.calls.append(call)
        self.bodies[call.body] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self.handler(call)
        finally:
            self.running -= 1


@dataclass
class Desk:
    """A queue of its own on the broker, the function that its listeners call, and means to publish and count."""

    server: RabbitServer
    function: Function
    queue: str
    pool: Pool
    listeners: list[Listener] = field(default_factory=list)

    def listener(self, **changes: Any) -> Listener:
        values: dict[str, Any] = {
            "trigger_id": ids.new_id(), "namespace": "sless-x", "trigger": "mail", "workload_id": "w", "function": "f", "queue": self.queue,
            "url": parse_broker_url(self.server.url()), "trusted": False, "prefetch": 10, "max_concurrency": 10, "max_attempts": 3,
        }  # fmt: skip
        listener = Listener(listen=Listen(**values | changes), pool=self.pool, invoker=self.function)
        self.listeners.append(listener)
        listener.start()
        return listener

    async def listening(self, **changes: Any) -> Listener:
        listener = self.listener(**changes)
        await until(lambda: listener.message.startswith("listening"), lambda: listener.message)
        return listener

    @contextlib.asynccontextmanager
    async def channel(self) -> AsyncIterator[Any]:
        connection = await aiormq.connect(self.server.url())
        try:
            yield await connection.channel()
        finally:
            await connection.close()

    async def publish(self, *bodies: bytes, queue: str | None = None, **properties: Any) -> None:
        """With publisher confirms, as persistent messages."""
        async with self.channel() as channel:
            for start in range(0, len(bodies), 100):
                await asyncio.gather(
                    *(
                        channel.basic_publish(
                            body,
                            routing_key=queue or self.queue,
                            properties=Basic.Properties(delivery_mode=2, **properties),
                            mandatory=True,
                        )
                        for body in bodies[start : start + 100]
                    )
                )

    async def make_queue(self, name: str | None = None, **options: Any) -> None:
        async with self.channel() as channel:
            await channel.queue_declare(name or self.queue, **{"durable": True} | options)

    async def delete_queue(self, name: str | None = None) -> None:
        async with self.channel() as channel:
            await channel.queue_delete(name or self.queue)

    async def counts(self, name: str | None = None) -> tuple[int, int]:
        """(ready messages, consumers); (0, 0) if the queue does not exist."""
        async with self.channel() as channel:
            try:
                found = await channel.queue_declare(name or self.queue, passive=True)
            except aiormq.exceptions.ChannelNotFoundEntity:
                return 0, 0
            return found.message_count, found.consumer_count

    async def holds(self, count: int, name: str | None = None) -> bool:
        """Whether the queue has this many ready messages."""
        return (await self.counts(name))[0] == count

    async def take_all(self, name: str) -> list[Any]:
        """Take all ready messages off a queue; empty if the queue does not exist."""
        found: list[Any] = []
        async with self.channel() as channel:
            with contextlib.suppress(aiormq.exceptions.ChannelNotFoundEntity):
                while (message := await channel.basic_get(name)).delivery.name == "Basic.GetOk":
                    found.append(message)
                    await channel.basic_ack(message.delivery.delivery_tag)
        return found


@contextlib.asynccontextmanager
async def open_desk(server: RabbitServer, handler: Handler = succeed, limits: BrokerLimits | None = None) -> AsyncIterator[Desk]:
    desk = Desk(server, Function(handler), f"q-{ids.new_id(8)}", Pool(outbound_of(LOCAL), limits))
    try:
        yield desk
    finally:
        await asyncio.gather(*(listener.stop(5) for listener in desk.listeners))


async def until(check: Callable[[], Any], found: Callable[[], object] = lambda: "", timeout_sec: float = 30.0) -> None:
    """Wait until `check`, sync or async, returns a true value."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + timeout_sec, pauses()
    while True:
        answer = check()
        if await answer if asyncio.iscoroutine(answer) else answer:
            return
        assert loop.time() < deadline, f"not in {timeout_sec:.0f} s; found {found()}"
        await asyncio.sleep(next(pause))
