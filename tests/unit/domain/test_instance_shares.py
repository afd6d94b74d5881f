"""Instances within the limits of a tenant."""

import pytest

from sless.config import Settings
from sless.domain.instance_shares import InstanceDemand, shares_of
from sless.domain.limits import TenantLimits, check_size, defaults_of, limits_of
from sless.errors import SlessError


def limited(**own: int) -> TenantLimits:
    return limits_of(defaults_of(Settings()), own)


def demands(*numbers: int, namespace: str = "ns", memory_mb: int = 128) -> list[InstanceDemand]:
    return [
        InstanceDemand(workload_id=f"{namespace}{place}", namespace=namespace, instances=number, memory_mb=memory_mb)
        for place, number in enumerate(numbers)
    ]


def granted(asked: list[InstanceDemand], **own: int) -> list[int]:
    return [share.instances for share in shares_of(asked, lambda _: limited(**own)).values()]


def test_demand_within_the_limits_is_met():
    found = shares_of(demands(3, 0, 20), lambda _: limited())
    assert [share.instances for share in found.values()] == [3, 0, 20] and not any(share.short for share in found.values())


def test_each_workload_gets_one_instance_before_any_gets_two():
    assert granted(demands(20, 1, 20), instances=6) == [3, 1, 2]
    assert granted(demands(5, 5, 5), instances=2) == [1, 1, 0]


def test_memory_is_limited_too_and_smaller_ones_may_still_fit():
    asked = demands(2, memory_mb=600) + demands(2, namespace="small", memory_mb=100)
    assert granted([InstanceDemand(workload_id=item.workload_id, namespace="ns", instances=2, memory_mb=item.memory_mb) for item in asked],
                   memory_mb=1000) == [1, 2]  # fmt: skip


def test_the_reason_names_the_limit():
    (share,) = shares_of(demands(5), lambda _: limited(instances=2)).values()
    assert share.instances == 2 and "limit instances " in share.short and "at most 2" in share.short
    (share,) = shares_of(demands(5), lambda _: limited(memory_mb=100)).values()
    assert share.instances == 0 and "limit memory_mb " in share.short


def test_tenants_do_not_share_a_limit():
    found = shares_of(demands(9) + demands(9, namespace="other"), lambda namespace: limited(instances=2 if namespace == "ns" else 50))
    assert [share.instances for share in found.values()] == [2, 9]


def test_a_workload_that_could_never_run_is_refused():
    check_size(limited(instances=2, memory_mb=300), least=2, memory_mb=150)
    for least, memory_mb, name in ((3, 16, "instances"), (2, 151, "memory_mb"), (0, 301, "memory_mb")):
        with pytest.raises(SlessError, match=f"limit {name} ") as caught:
            check_size(limited(instances=2, memory_mb=300), least, memory_mb)
        assert caught.value.status == 403
