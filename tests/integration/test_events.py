"""Event triggers with a real RabbitMQ: message handling, and failures that a listener recovers from."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pamqp.commands import Basic

from sless.domain.amqp import parse_broker_url
from sless.domain.messages import MessageCall, MessageOutcome
from tests.integration.event_desk import OK, failed, open_desk, until
from tests.services.rabbitmq import RabbitServer

pytestmark = pytest.mark.xdist_group("events")


async def test_messages_are_acknowledged_only_after_success(rabbit_server: RabbitServer) -> None:
    go = asyncio.Event()

    async def slow(call: MessageCall) -> MessageOutcome:
        await go.wait()
        return OK

    async with open_desk(rabbit_server, slow) as desk:
        listener = await desk.listening()
        await desk.publish(
            b'{"a": 1}', content_type="application/json", message_id="m-1", headers={"k": [1, None, bytearray(b"\xff"), 1.5]}
        )
        await until(lambda: desk.function.running == 1)
        assert listener.last_status is None
        go.set()
        await until(lambda: listener.last_status == "succeeded")
        await listener.stop(5)
        assert await desk.counts() == (0, 0)
        call = desk.function.calls[0]
        assert (call.body, call.content_type, call.request_id, call.attempt, call.last) == (
            b'{"a": 1}',
            "application/json",
            "m-1",
            1,
            False,
        )
        shown = json.loads(call.shown)
        assert shown["queue"] == shown["routing_key"] == desk.queue
        assert shown["headers"] == {"k": [1, None, "/w==", 1.5]}
        assert (shown["message_id"], shown["redelivered"], shown["trigger"]) == ("m-1", False, "mail")


async def test_a_stopped_listener_returns_unfinished_messages(rabbit_server: RabbitServer) -> None:
    async def stuck(call: MessageCall) -> MessageOutcome:
        await asyncio.sleep(3600)
        return OK

    async with open_desk(rabbit_server, stuck) as desk:
        listener = await desk.listening(max_concurrency=2, prefetch=5)
        await desk.publish(*(b"%d" % number for number in range(8)))
        await until(lambda: desk.function.running == 2)
        stopping = asyncio.create_task(listener.stop(5))
        await until(lambda: desk.holds(6))  # waiting messages return while calls still run
        assert desk.function.running == 2
        await stopping
        await until(lambda: desk.holds(8))
        assert desk.function.running == 0
        assert len(desk.function.calls) == 2


async def test_failing_messages_are_retried_then_dead_lettered_with_the_reason(rabbit_server: RabbitServer) -> None:
    async def fail(call: MessageCall) -> MessageOutcome:
        return failed(f"no luck with attempt {call.attempt}")

    async with open_desk(rabbit_server, fail) as desk:
        listener = await desk.listening(max_attempts=3)
        sent_at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        await desk.publish(
            b"x", headers={"mine": "yes", "half": 1.5, "CC": ["elsewhere"]}, message_id="m", correlation_id="c", timestamp=sent_at,
            user_id="sless", expiration="60000",
        )  # fmt: skip
        await until(lambda: listener.last_status == "dead")
        assert [(call.attempt, call.last) for call in desk.function.calls] == [(1, False), (2, False), (3, True)]
        assert len({call.shown.partition('"attempt"')[0] for call in desk.function.calls}) == 1
        (dead,) = await desk.take_all(f"{desk.queue}.dead")
        properties = dead.header.properties
        assert (dead.body, properties.correlation_id, properties.timestamp, properties.delivery_mode) == (b"x", "c", sent_at, 2)
        headers = properties.headers
        assert (headers["mine"], headers["half"]) == ("yes", 1.5)
        assert (headers["x-sless-reason"], headers["x-sless-attempts"], headers["x-sless-queue"]) == (
            "no luck with attempt 3",
            3,
            desk.queue,
        )
        assert (properties.message_id, headers["x-sless-request-id"]) == ("m", "r")
        assert properties.expiration is None
        assert await desk.counts() == (0, 1)


async def test_non_retryable_failures_are_dead_lettered_at_once(rabbit_server: RabbitServer) -> None:
    async def fail(call: MessageCall) -> MessageOutcome:
        return failed("not JSON", non_retryable=True)

    async with open_desk(rabbit_server, fail) as desk:
        listener = await desk.listening(max_attempts=5)
        await desk.publish(b"{")
        await until(lambda: listener.last_status == "dead")
        assert len(desk.function.calls) == 1


async def test_a_function_that_is_not_ready_costs_no_attempt(rabbit_server: RabbitServer) -> None:
    answers = iter([failed("it is being built", served=False), failed("it is being built", served=False), OK])

    async def later(call: MessageCall) -> MessageOutcome:
        return next(answers)

    async with open_desk(rabbit_server, later) as desk:
        listener = await desk.listening(max_attempts=1)
        await desk.publish(b"x")
        await until(
            lambda: listener.message == f'listening on queue "{desk.queue}"; messages wait: it is being built', lambda: listener.message
        )
        await until(lambda: listener.last_status == "succeeded")
        assert listener.message == f'listening on queue "{desk.queue}"'
        assert {call.attempt for call in desk.function.calls} == {1}


async def test_stopping_returns_messages_of_a_function_that_is_not_ready(rabbit_server: RabbitServer) -> None:
    async def never(call: MessageCall) -> MessageOutcome:
        await asyncio.sleep(0.3)
        return failed("it is being built", served=False)

    async with open_desk(rabbit_server, never) as desk:
        listener = await desk.listening()
        await desk.publish(b"x")
        await until(lambda: desk.function.running == 1)
        await asyncio.wait_for(listener.stop(60), 30)
        await until(lambda: desk.holds(1))
        assert len(desk.function.calls) == 1


async def test_prefetch_and_concurrency_are_respected(rabbit_server: RabbitServer) -> None:
    go = asyncio.Event()

    async def slow(call: MessageCall) -> MessageOutcome:
        await go.wait()
        return OK

    async with open_desk(rabbit_server, slow) as desk:
        await desk.make_queue()
        await desk.publish(*(b"%d" % number for number in range(50)))
        await desk.listening(max_concurrency=4, prefetch=7)
        await until(lambda: desk.function.running == 4)
        await until(lambda: desk.holds(43))
        go.set()
        await until(lambda: len(desk.function.bodies) == 50)
        assert desk.function.most == 4


async def test_attempts_outlive_the_listener(rabbit_server: RabbitServer) -> None:
    async def fail(call: MessageCall) -> MessageOutcome:
        return failed()

    async with open_desk(rabbit_server, fail) as desk:
        first = await desk.listening(max_attempts=2)
        await desk.publish(b"x")
        await until(lambda: first.last_status == "failed")
        await first.stop(5)
        await until(lambda: desk.holds(1, f"{desk.queue}.retry.1s"))
        second = await desk.listening(max_attempts=2)
        await until(lambda: second.last_status == "dead")
        assert [call.attempt for call in desk.function.calls] == [1, 2]


async def test_an_existing_queue_keeps_its_arguments(rabbit_server: RabbitServer) -> None:
    async with open_desk(rabbit_server) as desk:
        await desk.make_queue(arguments={"x-max-length": 5, "x-queue-type": "quorum"})
        await desk.listening()
        await desk.publish(b"x")
        await until(lambda: len(desk.function.calls) == 1)


async def test_a_deleted_queue_is_recreated(rabbit_server: RabbitServer) -> None:
    async with open_desk(rabbit_server) as desk:
        listener = await desk.listening()
        await desk.delete_queue()
        await until(lambda: "deleted" in listener.message, lambda: listener.message)
        await until(lambda: listener.message.startswith("listening"), lambda: listener.message)
        await desk.publish(b"x")
        await until(lambda: len(desk.function.calls) == 1)


async def test_deleted_retry_and_dead_queues_are_recreated(rabbit_server: RabbitServer) -> None:
    async def fail(call: MessageCall) -> MessageOutcome:
        return failed()

    async with open_desk(rabbit_server, fail) as desk:
        listener = await desk.listening(max_attempts=2)
        await desk.publish(b"1")
        await until(lambda: listener.last_status == "dead")
        await desk.delete_queue(f"{desk.queue}.dead")
        await desk.delete_queue(f"{desk.queue}.retry.1s")
        await until(lambda: "deleted" in listener.message, lambda: listener.message)
        await desk.publish(b"2")
        await until(lambda: desk.holds(1, f"{desk.queue}.dead"), lambda: listener.message)


async def test_a_channel_closed_by_the_broker_is_reopened(rabbit_server: RabbitServer) -> None:
    go = asyncio.Event()

    async def slow(call: MessageCall) -> MessageOutcome:
        await go.wait()
        return OK

    async with open_desk(rabbit_server, slow) as desk:
        listener = await desk.listening(max_concurrency=1)
        await desk.publish(b"running", b"waiting")
        await until(lambda: desk.function.running == 1)
        (session,) = listener._consumers
        await session.channel.ack(999)  # an unknown delivery tag makes the broker close the channel
        await until(lambda: "unknown delivery tag" in listener.message, lambda: listener.message)
        go.set()
        await until(lambda: len(desk.function.calls) >= 3)
        await until(lambda: listener.message.startswith("listening"))
        await until(lambda: desk.function.running == 0)
        await listener.stop(5)
        assert await desk.counts() == (0, 0)
        assert desk.function.bodies == {b"running": 2, b"waiting": 1}


@pytest.mark.parametrize(
    ("user", "password", "vhost", "text"),
    [
        ("sless", "wrong", "%2F", "user name or password refused"),
        ("sless", "opensesame", "none", 'vhost "none" not found'),
        ("nobody", "opensesame", "%2F", "no permission"),
    ],
)
async def test_refused_logins_are_reported(rabbit_server: RabbitServer, user: str, password: str, vhost: str, text: str) -> None:
    async with open_desk(rabbit_server) as desk:
        await desk.make_queue()
        listener = desk.listener(url=parse_broker_url(rabbit_server.url(user, password, vhost)))
        await until(lambda: text in listener.message, lambda: listener.message)
        assert "wrong" not in listener.message


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("amqp://u:secret@127.0.0.1:1/", "Connect"),
        ("amqp://u:secret@nowhere.invalid/", "has no address"),
        ("amqp://u:secret@10.0.0.1/", "not a public address"),
        ("amqps://u:secret@127.0.0.1:{port}/", "cannot connect to amqps://127.0.0.1"),
    ],
)
async def test_unreachable_brokers_are_reported(rabbit_server: RabbitServer, url: str, text: str) -> None:
    async with open_desk(rabbit_server) as desk:
        listener = desk.listener(url=parse_broker_url(url.format(port=rabbit_server.port)))
        await until(lambda: text in listener.message, lambda: listener.message)
        assert "secret" not in listener.message


async def test_an_exclusive_queue_is_reported(rabbit_server: RabbitServer) -> None:
    async with open_desk(rabbit_server) as desk, desk.channel() as channel:
        await channel.queue_declare(desk.queue, exclusive=True, durable=False)
        listener = desk.listener()
        await until(lambda: "exclusive" in listener.message, lambda: listener.message)


async def test_a_read_only_user_loses_no_message(rabbit_server: RabbitServer) -> None:
    async def fail(call: MessageCall) -> MessageOutcome:
        return failed()

    async with open_desk(rabbit_server, fail) as desk:
        await desk.make_queue()
        listener = await desk.listening(url=parse_broker_url(rabbit_server.url("reader")))
        await desk.publish(b"x")
        await until(lambda: "cannot create queue" in listener.message and "no permission" in listener.message, lambda: listener.message)
        await listener.stop(5)
        await until(lambda: desk.holds(1))


ODD_HEADERS: dict[str, Any] = {"big": "ä" * 63_000, "n": 2**62, "at": datetime(2026, 1, 1, tzinfo=UTC), "deep": {"a": [{"b": True}]}}


class Raw(Basic.Properties):
    """Properties with a message ID that is not UTF-8."""

    def encode_property(self, name: str, value: Any) -> bytes:
        raw = value.encode("latin-1") if name == "message_id" else None
        return super().encode_property(name, value) if raw is None else bytes([len(raw)]) + raw


async def test_a_message_id_that_is_not_utf_8_blocks_nothing(rabbit_server: RabbitServer) -> None:
    async with open_desk(rabbit_server) as desk:
        await desk.listening()
        async with desk.channel() as channel:
            await channel.basic_publish(b"odd", routing_key=desk.queue, properties=Raw(message_id="caf\xe9"))
        await desk.publish(b"next")
        await until(lambda: desk.function.bodies == {b"odd": 1, b"next": 1}, lambda: desk.function.bodies)
        assert '"message_id": "caf?"' in desk.function.calls[0].shown
        await until(lambda: desk.holds(0))


@pytest.mark.parametrize("body", [b"", b"\x00\xff" * 200_000, "ü".encode()], ids=["empty", "binary", "text"])
async def test_any_body_and_headers_reach_the_dead_letter_queue(rabbit_server: RabbitServer, body: bytes) -> None:
    async def fail(call: MessageCall) -> MessageOutcome:
        return failed()

    async with open_desk(rabbit_server, fail) as desk:
        listener = await desk.listening(max_attempts=2)
        await desk.publish(body, headers=ODD_HEADERS)
        await until(lambda: listener.last_status == "dead", lambda: listener.message)
        (dead,) = await desk.take_all(f"{desk.queue}.dead")
        assert dead.body == body
        assert dead.header.properties.headers["x-sless-reason"] == "boom"
        assert all(call.shown.isascii() and call.shown.isprintable() for call in desk.function.calls)


async def test_duplicates_of_an_attempt_run_once(rabbit_server: RabbitServer) -> None:
    """Duplicates come from retries of unconfirmed publishes, and from a killed broker that has forgotten acknowledgements."""
    go = asyncio.Event()

    async def fail(call: MessageCall) -> MessageOutcome:
        await go.wait()
        return failed()

    note = {"attempt": 2, "id": "chain", "due_ms": 0, "request_id": "r", "exchange": "", "routing_key": "", "has_id": False}
    async with open_desk(rabbit_server, fail) as desk:
        listener = await desk.listening(max_attempts=2)
        for _ in range(3):
            await desk.publish(b"x", headers={"x-sless-retry": note})
        await desk.publish(b"x", headers={"x-sless-retry": note | {"id": "other"}})
        await until(lambda: desk.function.running == 2)
        go.set()
        await until(lambda: desk.holds(2, f"{desk.queue}.dead"))
        await desk.publish(b"x", headers={"x-sless-retry": note})
        await until(lambda: desk.holds(0))
        await listener.stop(5)
        assert len(desk.function.calls) == 2
        assert await desk.counts() == (0, 0)
        letters = await desk.take_all(f"{desk.queue}.dead")
        assert {message.header.properties.headers["x-sless-id"] for message in letters} == {"chain", "other"}
