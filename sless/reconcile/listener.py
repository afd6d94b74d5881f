"""The listener of one trigger: one channel at a time, reopened with back-off when it ends. Runs on the event loop of the data plane."""

import asyncio
import logging
import random
from dataclasses import dataclass, field

from sless.broker import BrokerError, Pool
from sless.broker.pool import PooledConnection
from sless.domain.durations import backoff_sec
from sless.domain.messages import MessageInvoker
from sless.reconcile.attempts import MessageSource
from sless.reconcile.consumer import ConsumerParts, QueueConsumer, Settled
from sless.reconcile.listens import Listen, ListenerStatus

_log = logging.getLogger(__name__)
MAX_PAUSE_SEC = 15.0
STEADY_SEC = 30.0
"""The end of a channel that lived this long counts as a first failure."""


@dataclass(eq=False, slots=True, kw_only=True)
class Listener:
    """`message` and `last_status` (of the newest settled message) are shown in the trigger's status."""

    listen: Listen
    pool: Pool
    invoker: MessageInvoker
    last_status: str | None = None
    _trouble: str = "connecting"
    _held: str = ""
    _consumers: set[QueueConsumer] = field(default_factory=set)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _task: "asyncio.Task[None] | None" = None

    @property
    def message(self) -> str:
        waits = f"; messages wait: {self._held}" if self._held else ""
        return self._trouble or f'listening on queue "{self.listen.queue}"{waits}'

    @property
    def status(self) -> ListenerStatus:
        return ListenerStatus(message=self.message, active=not self._trouble, last_status=self.last_status)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self, grace_sec: float) -> None:
        """Stops consuming and requeues waiting messages; running calls get `grace_sec`, then they are cancelled and their messages
        requeued."""
        self._stopping.set()
        for consumer in list(self._consumers):
            await consumer.quiet()
        running = [task for consumer in self._consumers for task in consumer.tasks]
        if running:
            _, late = await asyncio.wait(running, timeout=grace_sec)
            for task in late:
                task.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, *running, return_exceptions=True)

    async def _run(self) -> None:
        link = self.pool.join(self.listen.namespace, self.listen.url, trusted=self.listen.trusted)
        parts = self._parts()
        failures = 0
        try:
            while not self._stopping.is_set():
                begun_at = asyncio.get_running_loop().time()
                self._trouble = await self._listen(link, parts)
                steady = asyncio.get_running_loop().time() - begun_at > STEADY_SEC
                failures = 1 if steady else failures + 1
                await asyncio.sleep(backoff_sec(failures, first_sec=0.5, max_sec=MAX_PAUSE_SEC) * random.uniform(0.8, 1.0))
        finally:
            await self.pool.leave(link)

    async def _listen(self, link: PooledConnection, parts: ConsumerParts) -> str:
        """Listens on one channel; returns why it ended."""
        try:
            connection = await self.pool.connection(link)
            consumer = QueueConsumer(connection, await connection.channel(), parts)
        except BrokerError as error:
            return str(error)
        self._consumers.add(consumer)
        try:
            await consumer.begin()
            self._trouble = ""
            return await consumer.ended()
        except BrokerError as error:
            return str(error)
        except Exception:
            _log.exception("trigger %s: the listener failed", self.listen.trigger_id)
            return "internal error; see the server's log"
        finally:
            await consumer.channel.close()
            self._release(consumer)

    def _release(self, consumer: QueueConsumer) -> None:
        """Calls that outlive their channel keep running and are counted until they end."""
        if not consumer.tasks:
            self._consumers.discard(consumer)
        for task in consumer.tasks:
            task.add_done_callback(lambda _: None if consumer.tasks else self._consumers.discard(consumer))

    def _parts(self) -> ConsumerParts:
        listen = self.listen
        return ConsumerParts(
            source=MessageSource(queue=listen.queue, trigger=listen.trigger, function=listen.function, max_attempts=listen.max_attempts),
            workload_id=listen.workload_id, prefetch=listen.prefetch, invoker=self.invoker,
            slots=asyncio.Semaphore(listen.max_concurrency), quarantine=asyncio.Lock(), settled=Settled(),
            on_settled=self._settled, on_held=self._hold,
        )  # fmt: skip

    def _settled(self, status: str) -> None:
        self.last_status = status

    def _hold(self, reason: str) -> None:
        self._held = reason
