"""A channel, which consumes, acknowledges and publishes with confirmation until it ends."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import aiormq
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from sless.broker.faults import BrokerError, reason_of, translated
from sless.broker.properties import properties_of
from sless.domain.messages import Message

RPC_SEC = 20.0
CONFIRM_SEC = 60.0
_FRAME_MARGIN_BYTES = 4096
"""Bytes of a frame reserved for everything but headers."""


class IncomingDelivery(NamedTuple):
    """`tag` is valid only on its channel, and only while that is open."""

    tag: int
    message: Message


class Channel:
    def __init__(self, inner: "aiormq.abc.AbstractChannel") -> None:
        self._inner = inner
        self._cancelled: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._queues: dict[str, str] = {}
        """Consumer tag → queue."""
        inner.on_consumer_cancel_callbacks.add(self._on_cancel)

    @property
    def closed(self) -> bool:
        return self._inner.is_closed

    async def consume(self, queue: str, prefetch: int, sink: Callable[[IncomingDelivery], None]) -> None:
        """Calls `sink` with messages, at most `prefetch` unsettled ones of this queue. Raises BrokerError."""

        async def deliver(delivered: DeliveredMessage) -> None:
            sink(_delivery_of(delivered))

        with translated(f'cannot listen on queue "{queue}"'):
            await self._inner.basic_qos(prefetch_count=prefetch, timeout=RPC_SEC)
            consumer = await self._inner.basic_consume(queue, deliver, timeout=RPC_SEC)
            self._queues[str(consumer.consumer_tag)] = queue

    async def cancel(self) -> None:
        """Stops consuming; delivered messages still have to be settled. Raises BrokerError."""
        with translated("cannot stop listening"):
            for tag in list(self._queues):
                del self._queues[tag]
                await self._inner.basic_cancel(tag, timeout=RPC_SEC)

    async def ended(self) -> str:
        """Waits for the end of the channel, its connection or one of its consumers; returns the reason."""
        closing = self._inner.closing
        await asyncio.wait([closing, self._cancelled], return_when=asyncio.FIRST_COMPLETED)
        if self._cancelled.done():
            return self._cancelled.result()
        return f"connection lost: {reason_of(None if closing.cancelled() else closing.exception())}"

    async def ack(self, tag: int) -> None:
        """Raises BrokerError, after which the broker delivers the message again."""
        with translated("cannot acknowledge"):
            await self._inner.basic_ack(tag, wait=False)

    async def requeue(self, tag: int) -> None:
        """Raises BrokerError, after which the broker requeues the message by itself."""
        with translated("cannot requeue"):
            await self._inner.basic_nack(tag, requeue=True, wait=False)

    async def publish(self, queue: str, message: Message) -> None:
        """Publishes a persistent message directly to a queue. Returns once the broker has confirmed it. Raises BrokerError."""
        with translated(f'cannot put a message into queue "{queue}"'):
            properties = properties_of(message, self._inner.connection.connection_tune.frame_max - _FRAME_MARGIN_BYTES)
            await self._inner.basic_publish(message.body, routing_key=queue, properties=properties, mandatory=True, timeout=CONFIRM_SEC)

    async def close(self) -> None:
        """The broker requeues unsettled messages."""
        try:
            with translated("cannot close"):
                async with asyncio.timeout(RPC_SEC):
                    await self._inner.close()
        except BrokerError:
            pass  # it was closed already

    def _on_cancel(self, frame: Basic.Cancel) -> None:
        queue = self._queues.pop(str(frame.consumer_tag), None)
        if queue is not None and not self._cancelled.done():
            self._cancelled.set_result(f'the broker ended the subscription to queue "{queue}": it was deleted, or its node failed')


def _delivery_of(delivered: DeliveredMessage) -> IncomingDelivery:
    frame: Any = delivered.delivery
    known = delivered.header.properties
    message = Message(
        body=delivered.body, headers=known.headers or {}, exchange=frame.exchange, routing_key=frame.routing_key,
        redelivered=frame.redelivered, message_id=known.message_id, correlation_id=known.correlation_id, reply_to=known.reply_to,
        content_type=known.content_type, content_encoding=known.content_encoding, type=known.message_type, app_id=known.app_id,
        priority=known.priority, timestamp=known.timestamp,
    )  # fmt: skip
    return IncomingDelivery(frame.delivery_tag, message)
