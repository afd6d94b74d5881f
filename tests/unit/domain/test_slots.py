from collections import Counter

import pytest

from sless.domain.slots import Slots


@pytest.mark.parametrize(("free", "greedy", "late"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 2, 1), (8, 4, 2), (20, 10, 5)])
def test_a_tenant_leaves_as_many_slots_as_it_takes(free: int, greedy: int, late: int) -> None:
    """Any tenant may take a single slot; the last of several is for a tenant without one."""
    slots = Slots(free=free, taken=Counter())
    assert sum(slots.take("greedy") for _ in range(30)) == greedy
    assert sum(slots.take("late") for _ in range(30)) == late
    assert slots.take("third") is (slots.free > 0 or free >= 4)


def test_slots_a_tenant_already_has_count() -> None:
    slots = Slots(free=3, taken=Counter(greedy=5))
    assert [slots.take(name) for name in ("greedy", "late", "late", "third", "third")] == [False, True, True, True, False]


def test_returned_slots_are_free_again() -> None:
    slots = Slots(free=2)
    assert [slots.take("a") for _ in range(2)] == [True, False]
    slots.give_back("a")
    assert (slots.free, slots.taken) == (2, Counter())
    assert slots.take("a")
