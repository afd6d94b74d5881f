"""Leader election on both databases: one leader at a time, handed over at once or taken over after the lease expires."""

from datetime import UTC, datetime

import pytest

from sless.domain.durations import Durations
from sless.reconcile.leader import Leader

DURATIONS = Durations()


class Time:
    """The clock of the leaders and the database."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def leaders(make_store, time):
    stores = [make_store(holder=name, read_time=lambda conn: datetime.fromtimestamp(time.now, UTC)) for name in ("a", "b")]
    return [Leader(store, store.holder, monotonic=time) for store in stores]


def test_one_leads_until_it_resigns(leaders, time):
    first, second = leaders
    assert first.keep()
    assert not second.keep()
    assert (first.is_leader(), second.is_leader()) == (True, False)
    first.resign()
    assert second.keep()  # at the next check, before the lease would have expired
    assert (first.is_leader(), second.is_leader()) == (False, True)


def test_a_lease_is_renewed_when_due_and_not_before(leaders, time):
    first, second = leaders
    first.keep()
    for _ in range(60):
        time.now += 1
        assert not first.keep()
        assert not second.keep()
        assert first.is_leader()


def test_checking_does_not_renew(leaders, time):
    """Neither by the leader before renewal is due nor by the others."""
    first, second = leaders
    first.keep()
    time.now += DURATIONS.lease_renew_sec - 1
    first.keep()
    second.keep()
    time.now += DURATIONS.lease_sec - DURATIONS.lease_renew_sec + 1
    assert second.keep()


def test_a_killed_leader_is_replaced_when_its_lease_expires(leaders, time):
    first, second = leaders
    first.keep()
    began = time.now
    while not second.keep():
        time.now += 1
    assert time.now - began <= DURATIONS.lease_sec + DURATIONS.lease_check_sec < 15
    assert not first.is_leader()  # its own clock made it stop before the other started


def test_a_restarted_leader_with_the_same_name_leads_at_once(leaders, make_store, time):
    first, second = leaders
    first.keep()
    again = Leader(make_store(holder="a", read_time=lambda conn: datetime.fromtimestamp(time.now, UTC)), "a", monotonic=time)
    assert again.keep()
    assert not second.keep()
