"""One channel of a listener: receives messages, calls the function, settles each message, until the channel ends.

A message can only be settled on the channel that delivered it. When a channel ends, the broker redelivers its unsettled messages.
"""

import asyncio
import contextlib
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from sless import clock, ids, metrics
from sless.broker import BrokerConnection, BrokerError, Channel, IncomingDelivery
from sless.domain.amqp import retry_delay_sec_of, retry_queue_of
from sless.domain.durations import backoff_sec
from sless.domain.messages import MessageCall, MessageInvoker, MessageOutcome
from sless.reconcile.attempts import (
    Acknowledge,
    Bury,
    Hold,
    MessageAttempt,
    MessageSource,
    Retry,
    attempt_of,
    message_verdict_of,
    shown_of,
    wait_sec_of,
)

_log = logging.getLogger(__name__)
SETTLED_KEPT = 10_000
MAX_HOLD_SEC = 15.0
RETURN_SEC = 600
"""A message in a retry queue without a consumer (because the trigger is gone) returns to its queue this long after it was due."""


class Settled:
    """Names of the newest settled attempts, to recognise messages that are delivered again: an acknowledgement in flight is lost when a
    connection breaks, and a killed broker loses those that it has not written, without marking the messages as redelivered. A first attempt
    has no name and may be made twice."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def add(self, name: str) -> None:
        if name:
            self._known[name] = None
            if len(self._known) > SETTLED_KEPT:
                self._known.popitem(last=False)

    def __contains__(self, name: str) -> bool:
        return name in self._known


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerParts:
    """Shared by the consumers of one listener. `on_settled` gets the status of each settled message, `on_held` the reason why the function
    cannot be called, "" once it can again. A quarantined message locks `quarantine`: if all messages of a crashed instance were retried
    together, the one that crashes instances would fail the others each time, and all would end as dead."""

    source: MessageSource
    workload_id: str
    prefetch: int
    invoker: MessageInvoker
    slots: asyncio.Semaphore
    quarantine: asyncio.Lock
    settled: Settled
    on_settled: Callable[[str], None]
    on_held: Callable[[str], None]


@dataclass(eq=False, slots=True)
class QueueConsumer:
    connection: BrokerConnection
    channel: Channel
    parts: ConsumerParts
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    _waiting: "dict[asyncio.Task[None], int]" = field(default_factory=dict)
    """Tasks whose message has not reached the function yet, with their delivery tags."""
    _quiet: bool = False
    _names: set[str] = field(default_factory=set)
    """Names of attempts that wait or run."""
    _failed: "asyncio.Future[str]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _ensured: set[str] = field(default_factory=set)
    _ensuring: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def begin(self) -> None:
        """Consumes the queue and its existing retry queues. Raises BrokerError."""
        source = self.parts.source
        await self.connection.ensure_queue(source.queue)
        for delay_sec in sorted({retry_delay_sec_of(number) for number in range(1, source.max_attempts)}):
            name = retry_queue_of(source.queue, delay_sec)
            if await self.connection.has_queue(name):
                await self._consume(name, delay_sec)
        await self._consume(source.queue, 0)

    async def ended(self) -> str:
        """Waits until no more messages can arrive; returns the reason. Calls may still be running."""
        ending = asyncio.ensure_future(self.channel.ended())
        try:
            await asyncio.wait([ending, self._failed], return_when=asyncio.FIRST_COMPLETED)
            return self._failed.result() if self._failed.done() else ending.result()
        finally:
            ending.cancel()
            for task in list(self._waiting):
                task.cancel()

    async def quiet(self) -> None:
        """Stops consuming; requeues the messages that have not reached the function."""
        self._quiet = True
        try:
            await self.channel.cancel()
            for task, tag in list(self._waiting.items()):
                task.cancel()
                await self.channel.requeue(tag)
        except BrokerError:
            pass  # the channel is closed, so the broker requeues its messages

    async def _give_back(self, tag: int) -> None:
        with contextlib.suppress(BrokerError):
            await self.channel.requeue(tag)

    # --- one message ---

    async def _consume(self, queue: str, delay_sec: int) -> None:
        def take(delivery: IncomingDelivery) -> None:
            # It arrived after `quiet` requeued the waiting messages.
            work = self._give_back(delivery.tag) if self._quiet else self._handle(delivery, delay_sec)
            task = asyncio.get_running_loop().create_task(work)
            self.tasks.add(task)
            if not self._quiet:
                self._waiting[task] = delivery.tag
            size = len(delivery.message.body)
            self.connection.budget.take(size)
            task.add_done_callback(lambda ended: self._forget(ended, size))

        await self.channel.consume(queue, self.parts.prefetch, take)
        self._ensured.add(queue)

    def _forget(self, task: "asyncio.Task[None]", size: int) -> None:
        self.connection.budget.give(size)
        self.tasks.discard(task)
        self._waiting.pop(task, None)

    async def _handle(self, delivery: IncomingDelivery, delay_sec: int) -> None:
        try:
            await self._attempt(delivery, delay_sec)
        except BrokerError as error:
            self._fail(str(error))
        except Exception:
            _log.exception("queue %s: handling a message failed; it is requeued", self.parts.source.queue)
            self._fail("internal error; see the server's log")

    async def _attempt(self, delivery: IncomingDelivery, delay_sec: int) -> None:
        attempt = attempt_of(delivery.message)
        name = attempt.name
        # A duplicate whose confirmation was lost. Nothing can be lost, as the other copy on this channel is not acknowledged yet.
        if name in self.parts.settled or name in self._names:
            await self.channel.ack(delivery.tag)
            return
        if name:
            self._names.add(name)
        try:
            await self._make(attempt, delivery.tag, delay_sec)
        finally:
            self._names.discard(name)

    async def _make(self, attempt: MessageAttempt, tag: int, delay_sec: int) -> None:
        if delay_sec:
            await asyncio.sleep(wait_sec_of(attempt, delay_sec, clock.now()))
        async with self.parts.quarantine if attempt.quarantined else contextlib.nullcontext(), self.parts.slots:
            task = asyncio.current_task()
            assert task is not None
            self._waiting.pop(task, None)
            outcome = await self._served(attempt, task, tag)
        if outcome is None:
            await self.channel.requeue(tag)
        else:
            await self._settle(tag, attempt, outcome)

    async def _served(self, attempt: MessageAttempt, task: "asyncio.Task[None]", tag: int) -> MessageOutcome | None:
        """Retries until the function can be called; between attempts the message counts as waiting. None if the consumer was stopped."""
        call = _call_of(attempt, self.parts)
        for failures in itertools.count(1):
            outcome = await self.parts.invoker.deliver(call)
            if outcome.served:
                self.parts.on_held("")
                return outcome
            self.parts.on_held(outcome.error)
            if self._quiet:
                return None
            self._waiting[task] = tag
            if self.channel.closed or self._failed.done():
                raise BrokerError("connection lost")
            await asyncio.sleep(backoff_sec(failures, first_sec=1.0, max_sec=MAX_HOLD_SEC))
            self._waiting.pop(task, None)
        raise AssertionError  # unreachable: the count is endless

    async def _settle(self, tag: int, attempt: MessageAttempt, outcome: MessageOutcome) -> None:
        """Publishes a copy first and acknowledges last. After a BrokerError the message is delivered again."""
        verdict = message_verdict_of(attempt, outcome, self.parts.source, now=clock.now(), chain=attempt.chain or ids.new_id())
        match verdict:
            case Acknowledge():
                status = "succeeded"
            case Retry(queue=queue, delay_sec=delay_sec, copy=copy):
                status = "failed"
                await self._ensure_retry(queue, delay_sec)
                await self.channel.publish(queue, copy)
            case Bury(queue=queue, copy=copy):
                status = "dead"
                await self._ensure_dead(queue)
                await self.channel.publish(queue, copy)
            case Hold():
                return
        self.parts.settled.add(attempt.name)
        await self.channel.ack(tag)
        metrics.messages.labels(status).inc()
        self.parts.on_settled(status)

    async def _ensure_retry(self, queue: str, delay_sec: int) -> None:
        async with self._ensuring:
            if queue in self._ensured:
                return
            arguments = {
                "x-message-ttl": (delay_sec + RETURN_SEC) * 1000,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": self.parts.source.queue,
            }
            await self.connection.ensure_queue(queue, arguments)
            await self._consume(queue, delay_sec)

    async def _ensure_dead(self, queue: str) -> None:
        async with self._ensuring:
            if queue not in self._ensured:
                await self.connection.ensure_queue(queue)
                self._ensured.add(queue)

    def _fail(self, reason: str) -> None:
        if not self._failed.done():
            self._failed.set_result(reason)


def _call_of(attempt: MessageAttempt, parts: ConsumerParts) -> MessageCall:
    message = attempt.message
    return MessageCall(
        workload_id=parts.workload_id, request_id=attempt.request_id, content_type=message.content_type or "", body=message.body,
        shown=shown_of(attempt, parts.source), attempt=attempt.number, last=attempt.number >= parts.source.max_attempts,
    )  # fmt: skip
