"""Memory × time of running instances, against a real store."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from sless.domain.ports import ObservedDeployment
from sless.domain.uptime import days_between
from sless.errors import SlessError
from sless.reconcile.uptime import WRITE_EVERY, UptimeMeter
from sless.store import Store, open_store
from tests.builders import NAMESPACE, make_endpoint, make_workload

START = datetime(2026, 3, 1, 23, 50, tzinfo=UTC)
EVER = (date(2020, 1, 1), date(2100, 1, 1))
WORKLOAD = make_workload(spec={"memory_mb": 512})
GB = 0.5


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = open_store(f"sqlite:///{tmp_path}/x.db", durable=False)
    found.migrate()
    yield found
    found.close()


def note(meter: UptimeMeter, ids: set[str], at_sec: float, memory_mb: int = 512) -> None:
    endpoints = tuple(make_endpoint(id=one) for one in sorted(ids))
    observed = {WORKLOAD.id: ObservedDeployment(workload_id=WORKLOAD.id, generation=1, endpoints=endpoints)} if ids else {}
    workload = WORKLOAD if memory_mb == 512 else make_workload(id=WORKLOAD.id, spec={"memory_mb": memory_mb})
    meter.note({WORKLOAD.id: workload}, observed, START + timedelta(seconds=at_sec))


def billed_sec(store: Store) -> float:
    """Seconds of instances of 512 MB."""
    return sum(row.instance_gb_seconds for row in store.metering.usage(*EVER, NAMESPACE)) / GB


def test_uptime_is_memory_times_time(store: Store) -> None:
    meter = UptimeMeter(store=store)
    note(meter, {"a", "b"}, 0)
    note(meter, {"a", "b"}, 4)
    note(meter, {"a"}, 4.5)
    note(meter, {"a"}, 10)
    note(meter, set(), 10.5)
    note(meter, set(), 30)
    assert billed_sec(store) == 10 + 4


def test_each_day_gets_its_part(store: Store) -> None:
    meter = UptimeMeter(store=store)
    note(meter, {"a"}, 0)
    note(meter, {"a"}, 3600)
    found = {row.day: row.instance_gb_seconds / GB for row in store.metering.usage(*EVER, NAMESPACE)}
    assert found == {"2026-03-01": 600, "2026-03-02": 3000}
    assert store.uptime.by_day(NAMESPACE, START + timedelta(days=1)) == {"2026-03-02": 1500}
    assert list(days_between(START, START - timedelta(days=1))) == []


def test_another_server_continues_after_an_outage(store: Store) -> None:
    killed, next_one = UptimeMeter(store=store), UptimeMeter(store=store)
    note(killed, {"stays", "ends"}, 0)
    note(killed, {"stays", "ends"}, 12)
    note(killed, {"stays", "ends"}, 15)
    note(next_one, {"stays", "new"}, 100)
    note(next_one, {"stays", "new"}, 111)
    assert billed_sec(store) == 111 + 12 + 11


def test_a_former_leader_counts_nothing_twice(store: Store) -> None:
    old, leader = UptimeMeter(store=store), UptimeMeter(store=store)
    note(old, {"a", "b"}, 0)
    note(old, {"a", "b"}, 11)
    note(old, {"a", "b"}, 14)
    note(leader, {"a"}, 15)
    note(leader, {"a"}, 26)
    note(old, {"a", "b"}, 30)
    assert billed_sec(store) == 30 + 11
    old.forget()
    note(old, {"a"}, 40)
    assert billed_sec(store) == 40 + 11


def test_more_memory_counts_for_new_instances(store: Store) -> None:
    meter = UptimeMeter(store=store)
    note(meter, {"old"}, 0)
    note(meter, {"old"}, 10, memory_mb=1024)
    note(meter, {"old", "new"}, 20, memory_mb=1024)
    note(meter, {"new"}, 30, memory_mb=1024)
    assert billed_sec(store) == 20 + 2 * 10


def test_nothing_is_lost_while_the_database_is_unavailable(tmp_path: Path) -> None:
    away = open_store(f"sqlite:///{tmp_path}/y.db", durable=False)
    meter = UptimeMeter(store=away)
    for at_sec in (0, 20):
        with pytest.raises(SlessError):
            note(meter, {"a"}, at_sec)
    away.migrate()
    note(meter, {"a"}, 40)
    assert billed_sec(away) == 40
    away.close()


@pytest.mark.parametrize("seed", range(3))
def test_uptime_is_billed_across_servers(store: Store, seed: int) -> None:
    """Servers that are killed or stopped, take turns, and are away; instances that start and end, some of them unobserved."""
    rng = random.Random(seed)
    meter, at_sec, unseen_sec = UptimeMeter(store=store), 0.0, 0.0
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    running: set[str] = set()
    for number in range(300):
        passed_sec, ended = rng.choice([0.5, 0.5, 1, 2]), set[str]()
        match rng.choices(["tick", "start", "end", "killed", "stopped", "away"], [20, 4, 3, 1, 1, 1])[0]:
            case "start":
                running.add(f"i{number}")
            case "end":
                ended = {one for one in running if rng.random() < 0.3}
            case "killed":
                meter, passed_sec = UptimeMeter(store=store), rng.uniform(1, 90)
                ended = {one for one in running if rng.random() < 0.3}
                unseen_sec += len(ended) * (WRITE_EVERY.total_seconds() + 2)
                # An instance without a row counts from now on.
                unseen_sec += sum(passed_sec + 2 for one in running if first[one] > at_sec - 2)
            case "stopped":
                meter.write()
                meter, passed_sec = UptimeMeter(store=store), rng.uniform(1, 90)
                ended = {one for one in running if rng.random() < 0.3}
            case "away":
                passed_sec = rng.uniform(5, 600)
        running -= ended
        at_sec += passed_sec
        for one in running:
            first.setdefault(one, at_sec)
            last[one] = at_sec
        note(meter, running, at_sec)
    meter.write()
    stood_sec = sum(last[one] - first[one] for one in first)
    assert stood_sec - unseen_sec - 1e-6 <= billed_sec(store) <= stood_sec + 1e-6
    assert unseen_sec < stood_sec / 2
