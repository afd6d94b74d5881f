"""Demand of several replicas, on SQLite and PostgreSQL."""

import queue
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

import pytest

from sless.domain.demand import NO_LOAD, Load, RunsUse, TenantUse
from sless.domain.model import Kind
from sless.reconcile.tenant_use import TenantUseLoop
from sless.store import Signals, Store
from tests.builders import make_workload_spec
from tests.contract.conftest import NAMESPACE


def test_the_loads_of_others_add_up(store: Store) -> None:
    store.demand.report("one", {"f": Load(waiting=2, in_flight=3, idle_sec=0)})
    store.demand.report("two", {"f": Load(waiting=1, idle_sec=0), "g": Load(in_flight=4, idle_sec=0)})
    found = store.demand.of_others("three", 10)
    assert {key: (load.waiting, load.in_flight) for key, load in found.items()} == {"f": (3, 3), "g": (0, 4)}
    assert set(store.demand.of_others("two", 10)) == {"f"}
    store.demand.report("two", {})
    assert set(store.demand.of_others("three", 10)) == {"f"}


def test_the_time_since_the_last_call_advances(store: Store) -> None:
    store.demand.report("one", {"f": Load(idle_sec=100.0), "g": NO_LOAD})
    found = store.demand.of_others("two", 10)
    assert 100 <= found["f"].idle_sec < 110 and found["g"].idle_sec == NO_LOAD.idle_sec


def test_reports_of_a_killed_replica_expire(store: Store) -> None:
    store.demand.report("one", {"f": Load(waiting=1, idle_sec=0)})
    read = store.demand._read_time
    store.demand._read_time = lambda conn: read(conn) + timedelta(seconds=4)
    assert set(store.demand.of_others("two", 3)) == set() and set(store.demand.of_others("two", 5)) == {"f"}
    store.demand._read_time = lambda conn: read(conn) + timedelta(seconds=61)
    assert store.demand.of_others("two", 3) == {}
    store.demand._read_time = read
    assert store.demand.of_others("two", 1000) == {}, "the row is removed"


class Replica:
    """The use by tenants on one replica, and its view of the others."""

    def __init__(self, store: Store, name: str, *, leads: bool = False) -> None:
        self.calls: dict[str, int] = {}
        self.runs: dict[str, RunsUse] = {}
        self.charged: Counter[str] = Counter()
        self.others: Mapping[str, RunsUse] = {}
        self.loop = TenantUseLoop(
            store=store, holder=name, is_leader=lambda: leads, calls=lambda: dict(self.calls), runs=lambda: dict(self.runs),
            charge=self.charged.update, set_runs=self._set_others,
        )  # fmt: skip

    def _set_others(self, found: Mapping[str, RunsUse]) -> None:
        self.others = found


def test_replicas_exchange_the_use_by_tenants(store: Store) -> None:
    one, two, three = (Replica(store, name) for name in ("one", "two", "three"))
    replicas = (one, two, three)
    large, small = RunsUse(runs=2, memory_mb=256), RunsUse(runs=1, memory_mb=64)
    one.calls, two.calls, two.runs = {"a": 7, "b": 1}, {"a": 5}, {"a": large}
    for replica in (*replicas, *replicas):
        replica.loop.tick()
    assert [replica.charged for replica in replicas] == [{"a": 5}, {"a": 7, "b": 1}, {"a": 12, "b": 1}]
    assert [replica.others.get("a", RunsUse()) for replica in replicas] == [large, RunsUse(), large]
    one.calls, one.runs, two.runs = {"a": 9}, {"a": small}, {}
    for replica in (*replicas, *replicas, *replicas):
        replica.loop.tick()
    assert three.charged == {"a": 14, "b": 1} and three.others["a"] == small, "each call counts once; the runs of two have ended"
    one.calls = {"a": 3}  # its functions were deleted and created again
    one.loop.tick()
    three.loop.tick()
    assert three.charged["a"] == 17


def test_use_on_a_killed_replica_expires(store: Store) -> None:
    one, two = Replica(store, "one"), Replica(store, "two")
    one.runs = {"a": RunsUse(runs=1, memory_mb=128)}
    one.loop.tick()
    two.loop.tick()
    assert two.others == one.runs
    read = store.demand._read_time
    store.demand._read_time = lambda conn: read(conn) + timedelta(seconds=4)
    two.loop.tick()
    assert two.others == {}
    store.demand.report_use("three", {"a": TenantUse(calls=1)}, 3)
    store.demand._read_time = lambda conn: read(conn) + timedelta(seconds=70)
    store.demand.report_use("two", {}, 3)
    assert store.demand.use_of_others("two", 1000) == {}, "the rows are removed"


def test_a_single_server_writes_nothing(store: Store) -> None:
    leader = Replica(store, "leader", leads=True)
    leader.calls = {"a": 1}
    leader.loop.tick()
    assert store.demand.use_of_others("other", 10) == {}
    other = Replica(store, "other")
    other.calls = {"a": 1}
    other.loop.tick()
    leader.calls = {"a": 3}
    leader.loop.tick()
    assert leader.charged == {"a": 1}
    other.loop.tick()
    assert other.charged == {"a": 2}


# SQLite has no notifications; it is polled.
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_waiting_calls_and_new_routes_wake_other_replicas(store: Store) -> None:
    heard: queue.Queue[str] = queue.Queue()
    signals = Signals(store.database, heard.put)
    signals.start()
    try:
        for _ in range(100):  # until it listens
            store.demand.report("one", {"f": Load(waiting=1, idle_sec=0)})
            try:
                assert heard.get(timeout=0.1) == "demand"
                break
            except queue.Empty:
                continue
        else:
            pytest.fail("no signal")
        while not heard.empty():
            heard.get()
        store.demand.report("one", {"f": Load(in_flight=1, idle_sec=0)})
        store.workloads.insert(NAMESPACE, Kind.FUNCTION, "hello", make_workload_spec())
        assert heard.get(timeout=5) == "routes"
    finally:
        signals.stop()
