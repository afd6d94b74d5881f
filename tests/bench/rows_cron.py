"""Cron: cost of idle triggers, and delay of claims when a thousand are due in the same second."""

import os
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import requests

from sless import clock, ids
from sless.client import Client
from sless.domain.model import Trigger, TriggerType
from sless.store import open_store, sqlite_url_of
from sless.store.tables import triggers, workloads
from sless.store.triggers import values_of
from tests.bench.client import connect, deploy
from tests.bench.effort import Effort
from tests.bench.load import POST_JSON, wrk
from tests.bench.places import FUNCTIONS, Missing, sless_server, temporary_folder, wait_until
from tests.bench.rows_proxy import figures
from tests.bench.table import Row, at_most
from tests.services.postgres import PostgresServer, find_binaries

IDLE, DUE = 10_000, 1_000
WATCHED_SEC = 60
SETTLE_SEC = 5
BESIDE_SEC = 6
Databases = dict[str, Callable[[Path], str]]


def cron(effort: Effort) -> Iterator[Row]:
    with _postgres(effort) as make_database:
        databases: Databases = {"SQLite": lambda folder: sqlite_url_of(folder / "bench.db")}
        if make_database is not None:
            databases["PostgreSQL"] = lambda folder: make_database()
        for name, url_of in databases.items():
            yield idle(name, url_of, effort)
            yield due(name, url_of, effort)
        yield beside(databases["SQLite"], effort)
        if make_database is None and not effort.moment:
            raise Missing("PostgreSQL's server is not installed (Debian: postgresql)")


def idle(database: str, url_of: Callable[[Path], str], effort: Effort) -> Row:
    """Processor time of the whole server in a minute, with and without the triggers (each due once a year)."""
    used, idle_count, watched_sec = [], effort.times(IDLE), effort.times(WATCHED_SEC)
    with _server(url_of) as (folder, client, url):
        for count in (0, idle_count):
            if count:
                insert(
                    client, url, count, lambda: f"{random.randrange(60)} {random.randrange(24)} {random.randrange(1, 28)} {_far_month()} *"
                )
                wait_until(lambda: _sample(client, "sless_cron_triggers") > idle_count, "the triggers are read")
            time.sleep(effort.times(SETTLE_SEC))
            before = cpu_sec(folder)
            time.sleep(watched_sec)
            used.append((cpu_sec(folder) - before) * 60 / watched_sec)
    detail = f"the server {used[1]:.2f} s per minute with {idle_count:,} triggers, {used[0]:.2f} s without"
    return at_most(
        f"{idle_count:,} idle cron triggers, {database}: processor time per minute", max(0.0, used[1] - used[0]), 1, unit="s", detail=detail
    )


def due(database: str, url_of: Callable[[Path], str], effort: Effort) -> Row:
    """The function has no code, so claims are recorded but nothing starts: this measures only claims."""
    count, used_sec = effort.times(DUE), 0.0
    with _server(url_of) as (folder, client, url):
        if effort.moment:
            insert(client, url, count, lambda: "* * * * *", since=clock.now() - timedelta(minutes=1))
            wait_until(lambda: sum(_delays(client).values()) >= count, "all are claimed")
            second = _delays(client)
        else:
            wait_until(lambda: datetime.now(UTC).second < 40, "there is time before the next minute")
            insert(client, url, count, lambda: "* * * * *")
            _wait_past_minute()
            delays, before = _delays(client), cpu_sec(folder)
            _wait_past_minute()
            used_sec = cpu_sec(folder) - before
            second = {bound: number - delays[bound] for bound, number in _delays(client).items()}
    if not effort.moment and sum(second.values()) != count:
        raise RuntimeError(f"expected {count} claims in a minute, found {sum(second.values())}")
    p50, p99 = (_quantile(second, share) for share in (0.5, 0.99))
    detail = f"half within {p50:g} s, 99 % within {p99:g} s (bounds of a histogram); {used_sec:.2f} s of processor time in the minute"
    return at_most(f"{count:,} cron triggers due at once, {database}: instant to durable claim, p99", p99, 1, unit="s", detail=detail)


def _far_month() -> int:
    return (datetime.now(UTC).month + 5) % 12 + 1


def beside(url_of: Callable[[Path], str], effort: Effort) -> Row:
    """Calls of another function in the seconds of the claims, against other seconds of the same minute; for a moment, while triggers that
    are due already are claimed."""
    count, effort = effort.times(DUE), effort.at_least(BESIDE_SEC)
    with _server(url_of) as (_, client, url):
        called = deploy(client, "hello", FUNCTIONS / "python", "python3.11")
        if effort.moment:
            quiet = wrk(called, connections=8, effort=effort, script=POST_JSON)
            insert(client, url, count, lambda: "* * * * *", since=clock.now() - timedelta(minutes=1))
        else:
            insert(client, url, count, lambda: "* * * * *")
            _wait_past_minute()
            quiet = wrk(called, connections=8, effort=effort, script=POST_JSON)
            time.sleep(60 - time.time() % 60 - effort.seconds / 2)
        busy = wrk(called, connections=8, effort=effort, script=POST_JSON)
        claimed = sum(_delays(client).values())
    detail = f"quiet {figures(quiet)}; busy {figures(busy)}; failed {quiet.failed + busy.failed}; {claimed:,} claims"
    return at_most(f"p99 while {count:,} cron triggers are due / p99 without", busy.p99_ms / quiet.p99_ms, 3, unit="×", detail=detail)


@contextmanager
def _server(url_of: Callable[[Path], str]) -> Iterator[tuple[Path, Client, str]]:
    with temporary_folder() as folder:
        url = url_of(folder)
        with sless_server(folder, SLESS_DATABASE_URL=url) as base:
            client = connect(base, folder)
            client.functions.create({"name": "f", "runtime": "python3.11"})
            yield folder, client, url


def insert(client: Client, url: str, count: int, schedule: Callable[[], str], since: datetime | None = None) -> None:
    """Triggers that fire for instants after `since`, by default from now on. Writes to the database, because the API has a limit per
    tenant. A change through the API makes the server read the other triggers."""
    client.triggers.create({"name": "first", "type": "cron", "function_ref": "f", "schedule": "0 0 29 2 *", "pre_warm_seconds": 0})
    store, now = open_store(url), clock.now()
    spec = {"timezone": "Europe/Berlin", "event_json": "{}", "pre_warm_seconds": 0, "overlap": "forbid", "misfire_grace_seconds": 60}
    made = [
        Trigger(
            id=ids.new_id(), namespace=client.namespace, name=f"t{number}", type=TriggerType.CRON, function_ref="f", enabled=True,
            spec=spec | {"schedule": schedule()}, secrets={}, generation=1, created_at=now, updated_at=now, scheduled_since=since or now,
        )
        for number in range(count)
    ]  # fmt: skip
    with store.database.write() as conn:
        if since is not None:  # no instant before its function was created is due
            conn.execute(workloads.update().values(created_at=since))
        for start in range(0, count, 1000):
            conn.execute(triggers.insert(), [values_of(item) for item in made[start : start + 1000]])
    store.close()
    client.triggers.merge("first", {"event_json": "[]"})


def _wait_past_minute() -> None:
    """Sends no requests meanwhile, as they would be measured too."""
    now = time.time()
    time.sleep(60 - now % 60 + SETTLE_SEC)


def _delays(client: Client) -> dict[float, int]:
    """Number of claims by upper bound of their delay (s), in order."""
    found, below = {}, 0
    for bound, number in re.findall(r'sless_cron_delay_seconds_bucket\{le="([^"]+)"\} (\S+)', _metrics(client)):
        found[float(bound)] = int(float(number)) - below
        below = int(float(number))
    return found


def _quantile(delays: dict[float, int], share: float) -> float:
    wanted, seen = share * sum(delays.values()), 0
    for bound, number in sorted(delays.items()):
        seen += number
        if seen >= wanted:
            return bound
    return float("inf")


def _sample(client: Client, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", _metrics(client), re.MULTILINE)
    return float(found[1]) if found else 0.0


def _metrics(client: Client) -> str:
    return requests.get(client.transport.url + "/metrics", timeout=30).text


def cpu_sec(folder: Path) -> float:
    """Processor time of the server's processes, found by the data folder in their environment."""
    mark, ticks = f"SLESS_DATA_DIR={folder / 'data'}".encode(), 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes():
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def _postgres(effort: Effort) -> Iterator[Callable[[], str] | None]:
    """Yields a function that creates databases; None without PostgreSQL on this machine, and for a moment, as SQLite shows enough."""
    if effort.moment or find_binaries() is None:
        yield None
        return
    server = PostgresServer()
    try:
        server.start()
        yield server.create_database
    finally:
        server.stop()
