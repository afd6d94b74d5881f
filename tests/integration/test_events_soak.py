"""Many messages, failing calls, and a broker that is killed and restarted: no message is lost, and only poisoned ones are
dead-lettered. 200 messages by default, 10,000 with `make soak`."""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_events_product import await_message, listen, on_broker, publish, waiting
from tests.services.product import Product, Tenant, wait_until
from tests.services.rabbitmq import RabbitServer

QUIET_SEC = 3.0
MESSAGES = int(os.environ.get("TEST_SOAK_MESSAGES", "200"))
pytestmark = [pytest.mark.xdist_group("events-soak"), pytest.mark.slow, pytest.mark.timeout(300 + MESSAGES // 10)]

HANDLER = """
import hashlib, os

def handle(event, context):
    number, message = event["n"], context.message
    last = message["attempt"] == message["max_attempts"]
    poisoned = number % 50 == 0
    unlucky = hashlib.sha256(f"{number}/{message['attempt']}".encode()).digest()[0] < 51 and not last
    if poisoned and message["attempt"] == 1:
        with open(os.environ["BEGUN"], "a") as file:
            file.write(f"poisoned {number}\\n")
    if poisoned or unlucky:
        raise ValueError(f"poisoned {number}" if poisoned else "unlucky")
    with open(os.environ["DONE"], "a") as file:
        file.write(f"{number}\\n")
"""


def numbers_of(done: Path) -> set[int]:
    return {int(number) for number in done.read_text().split()} if done.exists() else set()


def dead_of(server: RabbitServer, queue: str) -> list[tuple[str, str]]:
    """Take all dead letters; returns (reason, id) of each."""

    async def work(channel: Any) -> list[tuple[str, str]]:
        found = []
        while (message := await channel.basic_get(queue, no_ack=True)).delivery.name == "Basic.GetOk":
            headers = message.header.properties.headers
            found.append((headers["x-sless-reason"], headers["x-sless-id"]))
        return found

    # The queue does not exist before the first dead letter.
    letters: list[tuple[str, str]] = on_broker(server, work) if waiting(server, queue)[0] else []
    return letters


def is_running(tenant: Tenant) -> bool:
    return bool(tenant.get("functions/f/invocations?status=running").json())


def await_quiet(is_busy: Callable[[], bool]) -> None:
    """For some time, as a message is in no queue while the function handles it and while it moves to another queue."""
    busy_at = time.monotonic()

    def is_quiet() -> bool:
        nonlocal busy_at
        if is_busy():
            busy_at = time.monotonic()
        return time.monotonic() - busy_at > QUIET_SEC

    wait_until(is_quiet, "all calls have ended", 60)


def test_only_poisoned_messages_are_dead_lettered(
    start_product: Callable[..., Product], rabbit_server: RabbitServer, tmp_path: Path
) -> None:
    server = rabbit_server
    product = start_product(SLESS_RABBITMQ_URL=server.url())
    tenant = product.tenant("soak")
    queue, done = f"{tenant.namespace}.soak", tmp_path / "done"
    begun_path = tmp_path / "begun"
    tenant.deploy("f", {"handler.py": HANDLER}, http=False, env_vars={"DONE": str(done), "BEGUN": str(begun_path)})
    publish(server, queue, *(b'{"n": %d}' % number for number in range(MESSAGES)))
    listen(tenant, queue, prefetch=20, max_attempts=4)
    wait_until(lambda: len(numbers_of(done)) > MESSAGES // 10, "the first tenth", 120)
    server.kill()
    time.sleep(0.5)  # calls end in the meantime but cannot be acknowledged
    server.start()
    await_message(tenant, "listening")
    wait_until(lambda: len(numbers_of(done)) > MESSAGES // 2, "the first half", 300)
    server.stop()
    server.start()
    good = {number for number in range(MESSAGES) if number % 50}
    wait_until(lambda: numbers_of(done) >= good, f"all, missing {sorted(good - numbers_of(done))[:20]}", 600)
    poisoned = sorted(f"poisoned {number}" for number in range(0, MESSAGES, 50))
    # A killed broker forgets acknowledgements, so a message may start over and be dead-lettered twice: count different ones.
    dead: list[tuple[str, str]] = []
    wait_until(
        lambda: dead.extend(dead_of(server, f"{queue}.dead")) or {reason for reason, _ in dead} >= set(poisoned),
        "all poisoned messages are dead letters",
        120,
    )
    queues = (queue, *(f"{queue}.retry.{delay_sec}s" for delay_sec in (1, 2, 4)))
    await_quiet(lambda: any(waiting(server, name)[0] for name in queues) or is_running(tenant))
    assert product.end() == 0
    assert {waiting(server, name) for name in queues} == {(0, 0)}
    assert numbers_of(done) == good
    dead += dead_of(server, f"{queue}.dead")
    assert sorted({reason for reason, _ in dead}) == poisoned
    # Each start leads to at most one dead letter.
    begun = Counter(begun_path.read_text().splitlines())
    assert Counter(reason for reason, _ in set(dead)) <= begun


BACKLOG = 10 * MESSAGES if "TEST_SOAK_MESSAGES" in os.environ else 1000
BODY_BYTES = 60_000_000 // BACKLOG
GROWTH_MB = 50
COUNTING = """import os
def handle(event):
    with open(os.environ["DONE"], "a") as file:
        file.write(f"{event['n']}\\n")
"""


def memory_mb(pid: int) -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


@pytest.mark.timeout(300 + BACKLOG // 100)
def test_a_backlog_costs_no_memory(start_product: Callable[..., Product], rabbit_server: RabbitServer, tmp_path: Path) -> None:
    """The broker keeps the 60 MB backlog; the server holds only what it has prefetched."""
    product = start_product(SLESS_RABBITMQ_URL=rabbit_server.url())
    tenant = product.tenant("backlog")
    queue, done = f"{tenant.namespace}.backlog", tmp_path / "done"
    tenant.deploy("f", {"handler.py": COUNTING}, http=False, env_vars={"DONE": str(done)})
    pad = b"x" * BODY_BYTES
    publish(rabbit_server, queue, *(b'{"n": %d, "pad": "%b"}' % (number, pad) for number in range(BACKLOG)))
    before = most = memory_mb(product.worker)
    listen(tenant, queue, prefetch=50)

    def all_done() -> bool:
        nonlocal most
        most = max(most, memory_mb(product.worker))
        return len(numbers_of(done)) == BACKLOG

    wait_until(all_done, "all of them", 120 + BACKLOG // 100)
    assert most - before < GROWTH_MB, f"{before} MB grew to {most} MB"
