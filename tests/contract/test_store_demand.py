"""Demand of several replicas, on SQLite and PostgreSQL."""

import queue
from datetime import timedelta

import pytest

from sless.domain.demand import NO_LOAD, Load
from sless.domain.model import Kind
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


def test_the_time_since_the_last_call_goes_on(store: Store) -> None:
    store.demand.report("one", {"f": Load(idle_sec=100.0), "g": NO_LOAD})
    found = store.demand.of_others("two", 10)
    assert 100 <= found["f"].idle_sec < 110 and found["g"].idle_sec == NO_LOAD.idle_sec


def test_what_a_killed_replica_reported_counts_for_a_moment_only(store: Store) -> None:
    store.demand.report("one", {"f": Load(waiting=1, idle_sec=0)})
    read = store.demand._read_time
    store.demand._read_time = lambda conn: read(conn) + timedelta(seconds=4)
    assert set(store.demand.of_others("two", 3)) == set() and set(store.demand.of_others("two", 5)) == {"f"}
    store.demand._read_time = lambda conn: read(conn) + timedelta(seconds=61)
    assert store.demand.of_others("two", 3) == {}
    store.demand._read_time = read
    assert store.demand.of_others("two", 1000) == {}, "the row is removed"


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
