"""Event triggers over time: leader handover, backlogs that stay in the broker, and broker restarts."""

import asyncio
import resource
from pathlib import Path

import pytest

from sless.broker import BrokerLimits
from sless.config import Settings
from sless.domain.messages import MessageCall, MessageOutcome
from sless.domain.model import Kind, TriggerType
from sless.outbound import outbound_of
from sless.reconcile.events import EventsLoop, Listeners
from sless.store import Store, open_store
from tests.builders import NAMESPACE, make_workload_spec
from tests.contract.store_steps import build
from tests.integration.event_desk import OK, Desk, Function, failed, open_desk, until
from tests.services.rabbitmq import RabbitServer

pytestmark = pytest.mark.xdist_group("events")


@pytest.fixture
def store(tmp_path: Path):
    opened = open_store(f"sqlite:///{tmp_path / 'sless.db'}")
    opened.migrate()
    opened.tenants.ensure(NAMESPACE, "somebody")
    workload = opened.workloads.insert(NAMESPACE, Kind.FUNCTION, "f", make_workload_spec())
    build(opened, workload)
    yield opened
    opened.close()


def event_trigger(store: Store, queue: str) -> str:
    spec = {"queue": queue, "prefetch": 5, "max_concurrency": 5, "max_attempts": 3}
    return store.triggers.insert(NAMESPACE, name="mail", type=TriggerType.EVENT, function_ref="f", spec=spec).id


class Replica:
    def __init__(self, store: Store, server: RabbitServer, function: Function) -> None:
        loop = asyncio.get_running_loop()
        self.leads = False
        self.loop = EventsLoop(
            store=store,
            settings=Settings(data_dir=Path(), rabbitmq_url=server.url()),
            listeners=Listeners(outbound_of(()), function),
            is_leader=lambda: self.leads,
            loop=lambda: loop,
        )

    async def tick(self) -> None:
        await asyncio.to_thread(self.loop.tick)


async def consumers(desk: Desk, count: int) -> bool:
    return (await desk.counts())[1] == count


async def test_one_leader_listens_and_hands_over(store: Store, rabbit_server: RabbitServer) -> None:
    go = asyncio.Event()

    async def slow(call: MessageCall) -> MessageOutcome:
        if call.body == b"slow":
            await go.wait()
        return OK

    async with open_desk(rabbit_server, slow) as desk:
        desk.queue = f"{NAMESPACE}.{desk.queue}"
        trigger_id = event_trigger(store, desk.queue)
        first, second = Replica(store, rabbit_server, desk.function), Replica(store, rabbit_server, desk.function)

        async def ticks() -> None:
            while True:
                await first.tick()
                await second.tick()
                await asyncio.sleep(0.05)

        def message() -> str:
            found = store.triggers.find_by_id(trigger_id)
            assert found is not None
            return found.observed_message

        def status() -> str | None:
            found = store.triggers.find_by_id(trigger_id)
            return found.last_status if found else None

        ticking = asyncio.create_task(ticks())
        first.leads = True
        await until(lambda: message() == f'listening on queue "{desk.queue}"', message)
        assert await consumers(desk, 1)
        await desk.publish(b"slow", b"1")
        await until(lambda: len(desk.function.calls) == 2)
        first.leads = False
        await until(lambda: consumers(desk, 0))
        second.leads = True
        await until(lambda: consumers(desk, 1))
        await desk.publish(b"2", b"3")
        await until(lambda: len(desk.function.calls) == 4)
        go.set()
        await until(lambda: desk.function.running == 0)
        await until(lambda: status() == "succeeded", status)
        ticking.cancel()
        for replica in (first, second):
            await asyncio.to_thread(replica.loop.stop, 5)
        assert desk.function.bodies == {b"slow": 1, b"1": 1, b"2": 1, b"3": 1}
        assert await desk.counts() == (0, 0)


FLOOD = 1000


class Forgetful(Function):
    """Records no calls; every tenth message fails until its last attempt."""

    calls_made = 0

    async def deliver(self, call: MessageCall) -> MessageOutcome:
        self.calls_made += 1
        await asyncio.sleep(0)
        return failed() if int(call.body[:5]) % 10 == 0 and not call.last else OK


async def test_a_backlog_stays_in_the_broker(rabbit_server: RabbitServer) -> None:
    """60 MB of messages, every tenth of which fails twice, need memory for only a few at a time."""
    async with open_desk(rabbit_server) as desk:
        desk.function = function = Forgetful()
        await desk.make_queue()
        for start in range(0, FLOOD, 200):
            await desk.publish(*(b"%05d" % number + b"x" * 60_000 for number in range(start, start + 200)))
        before_mb, most = peak_mb(), 0
        listener = await desk.listening(prefetch=10, max_concurrency=5)
        while function.calls_made < FLOOD + FLOOD // 10 * 2:
            most = max(most, sum(len(session.tasks) for session in listener._consumers))
            await asyncio.sleep(0.005)
        assert 10 <= most <= 30  # prefetched from the queue and two retry queues
        assert peak_mb() - before_mb < 20
        assert await desk.counts(f"{desk.queue}.dead") == (0, 0)


async def test_large_messages_stay_in_the_broker_despite_the_prefetch(rabbit_server: RabbitServer) -> None:
    go = asyncio.Event()

    async def slow(call: MessageCall) -> MessageOutcome:
        await go.wait()
        return OK

    async with open_desk(rabbit_server, slow, BrokerLimits(held_bytes=2**20)) as desk:
        await desk.make_queue()
        for _ in range(40):
            await desk.publish(b"x" * 2**17)
        listener = await desk.listening(prefetch=100, max_concurrency=1)
        (session,) = listener._consumers
        await until(lambda: session.connection.budget.full)
        await asyncio.sleep(0.5)
        assert 8 < len(session.tasks) <= 16  # up to just over 1 MB, plus what was already read
        go.set()
        await until(lambda: len(desk.function.calls) == 40)
        await until(lambda: desk.function.running == 0)
        assert not session.connection.budget.full


async def test_a_message_over_the_size_limit_is_not_taken(rabbit_server: RabbitServer) -> None:
    async with open_desk(rabbit_server, limits=BrokerLimits(message_bytes=1000)) as desk:
        listener = await desk.listening()
        await desk.publish(b"x" * 1000)
        await until(lambda: len(desk.function.calls) == 1)
        await desk.publish(b"x" * 1001)
        await until(lambda: "a message of 1,001 bytes is over the limit of 1,000" in listener.message, lambda: listener.message)
        await listener.stop(5)
        await until(lambda: desk.holds(1))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_broker_restart(rabbit_server: RabbitServer) -> None:
    """Stops the broker cleanly; test_events_soak also kills it."""

    async def some_fail(call: MessageCall) -> MessageOutcome:
        await asyncio.sleep(0.01)
        return failed() if call.body.endswith(b"7") else OK

    async with open_desk(rabbit_server, some_fail) as desk:
        listener = await desk.listening(max_attempts=3)
        bodies = [b"%d" % number for number in range(200)]
        await desk.publish(*bodies)
        await until(lambda: len(desk.function.bodies) > 50)
        await asyncio.to_thread(rabbit_server.stop)
        try:
            await until(lambda: "cannot connect" in listener.message, lambda: listener.message)
        finally:
            await asyncio.to_thread(rabbit_server.start)
        await until(lambda: set(desk.function.bodies) == set(bodies), lambda: len(desk.function.bodies), 60)
        letters: set[bytes] = set()

        async def all_dead() -> bool:
            """Compares distinct bodies, as a dead letter with a lost confirm has a duplicate."""
            letters.update(message.body for message in await desk.take_all(f"{desk.queue}.dead"))
            return letters == {body for body in bodies if body.endswith(b"7")}

        await until(all_dead, lambda: letters, 60)
        assert listener.message == f'listening on queue "{desk.queue}"'
        await until(lambda: desk.function.running == 0)
        await listener.stop(5)
        assert await desk.counts() == (0, 0)
