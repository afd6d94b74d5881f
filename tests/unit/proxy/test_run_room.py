"""Room for a tenant's one-off runs, beside its instances and the runs of other replicas."""

import pytest

from sless.domain.demand import RunsUse
from sless.domain.limits import LimitName, TenantLimits
from sless.errors import SlessError
from sless.proxy.run_room import RunRoom

LIMITS = TenantLimits({LimitName.MEMORY_MB: 1000, LimitName.RUNS_AT_ONCE: 3})
SHORT = LimitName.MEMORY_MB


def test_runs_share_the_memory_that_instances_and_other_replicas_leave() -> None:
    instances = {"a": 300}
    room = RunRoom(lambda namespace: instances.get(namespace, 0))
    room.set_others({"a": RunsUse(runs=1, memory_mb=200)})
    assert room.take("one", "a", 400, LIMITS) is None
    assert room.take("two", "a", 101, LIMITS) is SHORT
    assert room.take("three", "a", 100, LIMITS) is None
    assert (room.own(), room.claimed_mb("a")) == ({"a": RunsUse(runs=2, memory_mb=500)}, 801), "the waiting run claims memory, too"
    assert room.take("other", "b", 1000, LIMITS) is None, "each tenant has its own limits"
    room.give_back("three")
    instances["a"] = 299
    assert room.take("two", "a", 101, LIMITS) is None
    assert room.take("four", "a", 1, LIMITS) is LimitName.RUNS_AT_ONCE
    room.give_back("one")
    assert room.claimed_mb("a") == 301


def test_a_run_that_no_longer_waits_claims_nothing() -> None:
    room = RunRoom(lambda namespace: 1000)
    assert room.take("one", "a", 10, LIMITS) is SHORT
    room.give_back("one")
    assert room.claimed_mb("a") == 0


def test_a_run_larger_than_the_limit_is_refused() -> None:
    with pytest.raises(SlessError, match="limit memory_mb of the namespace: expected at most 1000 MB"):
        RunRoom().take("one", "a", 1001, LIMITS)


def test_without_limits_everything_fits() -> None:
    assert RunRoom(lambda namespace: 2**40).take("one", "a", 2**40, None) is None
