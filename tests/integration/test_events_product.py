"""Event triggers on a running server with a real RabbitMQ."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiormq
import pytest
from pamqp.commands import Basic

from tests.services.product import Product, Tenant, running_product, wait_until
from tests.services.rabbitmq import RabbitServer

pytestmark = pytest.mark.xdist_group("events-product")

HANDLER = """
import json, os, time

def handle(event, context):
    if event == {"fail": True}:
        raise ValueError("no luck today")
    if event == {"exit": True}:
        time.sleep(0.2)
        os._exit(3)
    if isinstance(event, dict) and "sleep" in event:
        time.sleep(event["sleep"])
        if "DONE" in os.environ:
            with open(os.environ["DONE"], "a") as file:
                file.write(f"{event['n']}\\n")
    print(json.dumps([event, context.trigger, context.http, context.message]))
    return "done"
"""


@pytest.fixture(scope="module")
def mq_product(tmp_path_factory: pytest.TempPathFactory, rabbit_server: RabbitServer) -> Any:
    """A server with an operator's broker, which lets tenants connect to this machine. A test that ends it starts it again."""
    settings = {"SLESS_RABBITMQ_URL": rabbit_server.url(), "SLESS_OUTBOUND_ALLOW": "127.0.0.0/8", "SLESS_EVENT_QUEUES_ALLOWED": "shared"}
    with running_product(tmp_path_factory.mktemp("mq-product"), **settings) as started:
        yield started


@pytest.fixture
def mq_tenant(mq_product: Product, request: pytest.FixtureRequest) -> Any:
    if not mq_product.is_running:
        mq_product.start()
    made = mq_product.tenant(request.node.name)
    yield made
    made.leave()


def on_broker(server: RabbitServer, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        connection = await aiormq.connect(server.url())
        try:
            return await work(await connection.channel())
        finally:
            await connection.close()

    return asyncio.run(run())


def publish(server: RabbitServer, queue: str, *bodies: bytes, **properties: Any) -> None:
    async def work(channel: Any) -> None:
        await channel.queue_declare(queue, durable=True)
        for body in bodies:
            await channel.basic_publish(body, routing_key=queue, properties=Basic.Properties(delivery_mode=2, **properties), mandatory=True)

    on_broker(server, work)


def waiting(server: RabbitServer, queue: str) -> tuple[int, int]:
    """(ready messages, consumers); (0, 0) if the queue does not exist."""

    async def work(channel: Any) -> tuple[int, int]:
        try:
            found = await channel.queue_declare(queue, passive=True)
        except aiormq.exceptions.ChannelNotFoundEntity:
            return 0, 0
        return found.message_count, found.consumer_count

    result: tuple[int, int] = on_broker(server, work)
    return result


def listen(tenant: Tenant, queue: str, **fields: Any) -> None:
    body = {"name": "mail", "type": "event", "function_ref": "f", "queue": queue} | fields
    made = tenant.post("triggers", body)
    assert made.status_code == 201, made.text
    await_message(tenant, f'listening on queue "{queue}"')


def await_message(tenant: Tenant, text: str) -> None:
    found = [""]

    def is_shown() -> bool:
        found.append(tenant.get("triggers/mail").json()["message"])
        return text in found[-1]

    try:
        wait_until(is_shown, text, 60)
    except AssertionError as error:
        raise AssertionError(f"{error}; found {sorted(set(found))}") from None


def calls_of(tenant: Tenant) -> list[dict[str, Any]]:
    """Those that have ended, oldest first."""
    found: list[dict[str, Any]] = tenant.get("functions/f/invocations").json()
    return [call for call in reversed(found) if call["trigger"] == "event" and call["status"] != "running"]


def broken_triggers_of(tenant: Tenant) -> dict[str, str]:
    """Names and messages of the triggers that cannot work."""
    return {item["name"]: item["message"] for item in tenant.get("triggers?active=false").json()}


def running_of(tenant: Tenant) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tenant.get("functions/f/invocations?status=running").json()
    return found


def test_a_message_is_delivered_and_recorded(mq_tenant: Tenant, rabbit_server: RabbitServer) -> None:
    tenant, queue = mq_tenant, f"{mq_tenant.namespace}.mail"
    tenant.deploy("f", {"handler.py": HANDLER}, http=False)
    listen(tenant, queue, max_attempts=2)
    publish(
        rabbit_server, queue, b'{"a": 1}', content_type="application/json", message_id="order-7", headers={"k": "ü"}, correlation_id="c"
    )
    publish(rabbit_server, queue, b'{"fail": true}')
    wait_until(lambda: len(calls_of(tenant)) == 3, "three calls")
    good, failed, dead = sorted(calls_of(tenant), key=lambda call: (call["status"] != "succeeded", call["attempts"]))
    assert (good["status"], good["request_id"], good["attempts"], good["http_status"]) == ("succeeded", "order-7", 1, 200)
    assert (failed["status"], failed["attempts"], failed["error"]) == ("failed", 1, "no luck today")
    assert (dead["status"], dead["attempts"], dead["request_id"]) == ("dead", 2, failed["request_id"])
    lines = tenant.get(f"functions/f/invocations/{good['id']}").json()["logs"]
    event, trigger, http, message = json.loads(lines[0]["text"])
    assert (event, trigger, http) == ({"a": 1}, "event", None)
    assert message["headers"] == {"k": "ü"}
    assert {name: message[name] for name in ("queue", "routing_key", "message_id", "correlation_id", "redelivered", "attempt")} == {
        "queue": queue, "routing_key": queue, "message_id": "order-7", "correlation_id": "c", "redelivered": False, "attempt": 1,
    }  # fmt: skip
    assert waiting(rabbit_server, f"{queue}.dead")[0] == 1
    wait_until(lambda: tenant.get("triggers/mail").json()["last_status"] == "dead", "the last status")
    metrics = tenant.call("GET", "/metrics").text
    assert 'sless_messages_total{status="dead"}' in metrics and 'trigger="event"' in metrics
    usage = tenant.get("usage").json()
    assert sum(day["invocations"] for day in usage["days"]) == 3


def test_a_message_starts_the_first_instance(mq_tenant: Tenant, rabbit_server: RabbitServer) -> None:
    tenant, queue = mq_tenant, f"{mq_tenant.namespace}.mail"
    tenant.deploy("f", {"handler.py": HANDLER}, http=False, idle_seconds=1)
    listen(tenant, queue)

    def is_idle() -> bool:
        found = tenant.get("functions/f").json()
        return (found["phase"], found["ready_instances"]) == ("Ready", 0) and "idle" in found["message"]

    wait_until(is_idle, "no instance is running")
    assert waiting(rabbit_server, queue) == (0, 1), "the server listens"
    publish(rabbit_server, queue, b'{"n": 1}', b'{"n": 2}')
    wait_until(lambda: len(calls_of(tenant)) == 2, "two calls")
    assert [(call["status"], call["attempts"], call["cold"]) for call in calls_of(tenant)] == [("succeeded", 1, True)] * 2
    wait_until(is_idle, "no instance is running again")


def test_a_message_that_crashes_the_instance_fails_no_other_message(mq_tenant: Tenant, rabbit_server: RabbitServer) -> None:
    tenant, queue = mq_tenant, f"{mq_tenant.namespace}.mail"
    tenant.deploy("f", {"handler.py": HANDLER}, http=False)
    listen(tenant, queue, max_attempts=3)
    for number in range(3):
        publish(rabbit_server, queue, b'{"sleep": 0.5, "n": %d}' % number)
    publish(rabbit_server, queue, b'{"exit": true}')

    def statuses() -> Counter[str]:
        return Counter(call["status"] for call in calls_of(tenant))

    wait_until(lambda: statuses()["succeeded"] >= 3 and statuses()["dead"] >= 1, "three messages succeed, one is a dead letter", 60)
    wait_until(lambda: waiting(rabbit_server, queue)[0] == 0, "the queue is empty")
    found = statuses()
    assert (found["succeeded"], found["dead"]) == (3, 1), calls_of(tenant)
    assert found["failed"] >= 5, "the others first ran at the same time"


def test_a_disabled_trigger_consumes_nothing(mq_tenant: Tenant, rabbit_server: RabbitServer) -> None:
    tenant, queue = mq_tenant, f"{mq_tenant.namespace}.mail"
    tenant.deploy("f", {"handler.py": HANDLER}, http=False)
    listen(tenant, queue)
    tenant.patch("triggers/mail", {"enabled": False})
    wait_until(lambda: waiting(rabbit_server, queue)[1] == 0, "no consumer")
    publish(rabbit_server, queue, b"1", b"2")
    time.sleep(1.2)  # more than one tick
    assert waiting(rabbit_server, queue) == (2, 0)
    tenant.patch("triggers/mail", {"enabled": True})
    wait_until(lambda: len(calls_of(tenant)) == 2, "both messages")


def test_a_broker_url_of_the_tenant_and_its_errors(mq_tenant: Tenant, rabbit_server: RabbitServer) -> None:
    tenant, queue = mq_tenant, f"any-{mq_tenant.namespace}"
    made = tenant.post(
        "triggers", {"name": "mail", "type": "event", "function_ref": "f", "queue": queue, "amqp_url": rabbit_server.url(password="no")}
    )
    assert made.status_code == 201 and "no@" not in made.text
    await_message(tenant, 'function "f" not found')
    tenant.create("f")
    await_message(tenant, "no ready version")
    tenant.upload("f", {"handler.py": HANDLER})
    await_message(tenant, "user name or password refused")
    assert tenant.get("triggers/mail").json()["active"] is False
    assert "user name or password refused" in broken_triggers_of(tenant)["mail"] and "no@" not in broken_triggers_of(tenant)["mail"]
    tenant.patch("triggers/mail", {"amqp_url": rabbit_server.url()})
    await_message(tenant, f'listening on queue "{queue}"')
    assert tenant.get("triggers/mail").json()["active"] is True and broken_triggers_of(tenant) == {}
    publish(rabbit_server, queue, b"x")
    wait_until(lambda: len(calls_of(tenant)) == 1, "the call")
    tenant.patch("triggers/mail", {"amqp_url": rabbit_server.url(password="also-wrong")})
    await_message(tenant, "user name or password refused")
    assert list(broken_triggers_of(tenant)) == ["mail"], "a changed password"


@pytest.mark.slow
def test_a_broker_of_the_operator_that_cannot_be_used(start_product: Callable[..., Product], rabbit_server: RabbitServer) -> None:
    """First the password is wrong; later the broker stops while the trigger listens."""
    product = start_product(SLESS_RABBITMQ_URL=rabbit_server.url(password="wrong"))
    tenant = product.tenant("locked-out")
    tenant.deploy("f", {"handler.py": HANDLER}, http=False)
    tenant.post("triggers", {"name": "mail", "type": "event", "function_ref": "f", "queue": f"{tenant.namespace}.mail"})
    await_message(tenant, "user name or password refused")
    assert "wrong" not in broken_triggers_of(tenant)["mail"]
    assert product.end() == 0
    product.place.environ["SLESS_RABBITMQ_URL"] = rabbit_server.url()
    product.start()
    wait_until(lambda: broken_triggers_of(tenant) == {}, "it listens")
    rabbit_server.stop()
    try:
        wait_until(lambda: "mail" in broken_triggers_of(tenant), "the broker is gone")
    finally:
        rabbit_server.start()
    wait_until(lambda: broken_triggers_of(tenant) == {}, "it listens again", 60)


@pytest.mark.slow
def test_a_stop_finishes_running_calls_and_a_kill_loses_nothing(mq_tenant: Tenant, rabbit_server: RabbitServer, tmp_path: Path) -> None:
    tenant, product = mq_tenant, mq_tenant.product
    queue, done = f"{tenant.namespace}.mail", tmp_path / "done"
    tenant.deploy("f", {"handler.py": HANDLER}, http=False, env_vars={"DONE": str(done)})
    listen(tenant, queue, max_concurrency=1, prefetch=10)
    publish(rabbit_server, queue, b'{"sleep": 5, "n": 0}', b'{"sleep": 0, "n": 1}', b'{"sleep": 0, "n": 2}')
    wait_until(lambda: waiting(rabbit_server, queue)[0] == 0, "all are fetched")
    wait_until(lambda: [call["finished_at"] for call in running_of(tenant)] == [None], "the call is shown while it runs")
    assert product.end() == 0
    assert done.read_text() == "0\n"
    wait_until(lambda: waiting(rabbit_server, queue) == (2, 0), "the two messages that did not run are requeued")
    product.start()
    wait_until(lambda: len(calls_of(tenant)) == 3, "all three")
    assert [call["status"] for call in calls_of(tenant)] == ["succeeded"] * 3

    publish(rabbit_server, queue, *(b'{"sleep": 0.1, "n": %d}' % number for number in range(3, 23)))
    wait_until(lambda: len(done.read_text().split()) >= 6, "some calls")
    product.kill(master=True, worker=True)
    product.start()
    wait_until(lambda: {int(number) for number in done.read_text().split()} == set(range(23)), "all of 23")
    wait_until(lambda: waiting(rabbit_server, queue) == (0, 1), "the queue is empty")
    wait_until(lambda: not running_of(tenant), "no call of the killed server shows as running")
