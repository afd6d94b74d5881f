"""Messages of a queue through a function, against the same client library that only consumes and acknowledges."""

import asyncio
import re
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import aiormq
from pamqp.commands import Basic

from sless.client import Client
from tests.bench.client import connect, deploy
from tests.bench.effort import Effort
from tests.bench.places import FUNCTIONS, Missing, sless_server, temporary_folder, wait_until
from tests.bench.table import Row, ratio
from tests.services.rabbitmq import SERVER, RabbitServer

MESSAGES = 5_000
PREFETCH = 50
CONCURRENCY = 10
EDGE = 0.05
"""Share of messages at either end that is not timed, while the consumer starts and the queue runs dry."""


def messages(effort: Effort) -> Iterator[Row]:
    if not SERVER.exists():
        raise Missing("RabbitMQ's server is not installed (Debian: rabbitmq-server)")
    server, count = RabbitServer(), effort.times(MESSAGES)
    try:
        server.start()
        with temporary_folder() as folder, sless_server(folder, SLESS_RABBITMQ_URL=server.url()) as url:
            client = connect(url, folder)
            deploy(client, "hello", FUNCTIONS / "python", "python3.11")
            queue = f"{client.path.rpartition('/')[2]}.bench"
            create_trigger(client, queue)
            measured = [(through_function(client, server, url, queue, count), bare(server, "bare", count)) for _ in range(effort.pairs)]
    finally:
        server.close()
    rates = [statistics.median(column) for column in zip(*measured, strict=True)]
    detail = f"function {rates[0]:,.0f} messages/s, bare {rates[1]:,.0f} messages/s"
    name = f"messages through a function / consumed and acknowledged only, prefetch {PREFETCH}, concurrency {CONCURRENCY}"
    yield ratio(name, statistics.median(function / bare_rate for function, bare_rate in measured), detail=detail)


def create_trigger(client: Client, queue: str) -> None:
    client.triggers.create(
        {
            "name": "bench", "type": "event", "function_ref": "hello", "queue": queue, "prefetch": PREFETCH, "enabled": False,
            "max_concurrency": CONCURRENCY,
        }
    )  # fmt: skip


def through_function(client: Client, server: RabbitServer, url: str, queue: str, count: int) -> float:
    """Messages per second, by the server's own metrics."""
    asyncio.run(publish(server, queue, count))
    before = done(url)
    client.triggers.merge("bench", {"enabled": True})
    rate = rate_of(lambda: done(url) - before, count)
    client.triggers.merge("bench", {"enabled": False})
    return rate


def rate_of(number: Callable[[], int], count: int) -> float:
    """Messages per second without the edges, while `number()` grows to `count`."""
    times = []
    for wanted in edges_of(count):
        found = 0

        def reached(wanted: int = wanted) -> bool:
            nonlocal found
            found = number()
            return found >= wanted

        wait_until(reached, f"{wanted} messages")
        times.append((time.monotonic(), found))
    (began, first), (ended, last) = times
    wait_until(lambda: number() >= count, "all messages")
    return (last - first) / (ended - began)


def done(url: str) -> int:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        found = re.search(r'sless_messages_total\{status="succeeded"\} (\S+)', answer.read().decode())
    return int(float(found[1])) if found else 0


async def publish(server: RabbitServer, queue: str, count: int) -> None:
    connection = await aiormq.connect(server.url())
    channel = await connection.channel()
    await channel.queue_declare(queue, durable=True)
    for start in range(0, count, 500):
        properties = [Basic.Properties(delivery_mode=2, content_type="application/json") for _ in range(min(500, count - start))]
        await asyncio.gather(*(channel.basic_publish(b'{"name": "you"}', routing_key=queue, properties=item) for item in properties))
    await connection.close()


def bare(server: RabbitServer, queue: str, count: int) -> float:
    asyncio.run(publish(server, queue, count))
    return asyncio.run(consume(server, queue, count))


async def consume(server: RabbitServer, queue: str, count: int) -> float:
    """Consumes as sless does, but acknowledges each message immediately; returns messages per second."""
    connection = await aiormq.connect(server.url())
    channel = await connection.channel()
    times: list[float] = []
    all_done = asyncio.Event()

    async def take(message: Any) -> None:
        await channel.basic_ack(message.delivery.delivery_tag, wait=False)
        times.append(time.monotonic())
        if len(times) == count:
            all_done.set()

    await channel.basic_qos(prefetch_count=PREFETCH)
    await channel.basic_consume(queue, take)
    await all_done.wait()
    await connection.close()
    first, last = edges_of(count)
    return (last - first) / (times[last] - times[first])


def edges_of(count: int) -> tuple[int, int]:
    return int(count * EDGE), int(count * (1 - EDGE))
