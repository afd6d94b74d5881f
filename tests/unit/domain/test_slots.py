from collections import Counter

import pytest

from sless.domain.slots import Slots


@pytest.mark.parametrize(("free", "greedy", "late"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 2, 1), (8, 4, 2), (20, 10, 5)])
def test_a_tenant_leaves_as_many_places_as_it_takes(free: int, greedy: int, late: int) -> None:
    """The only place there is may be taken by anybody; the last one of several by somebody who has none."""
    slots = Slots(free=free, taken=Counter())
    assert sum(slots.take("greedy") for _ in range(30)) == greedy
    assert sum(slots.take("late") for _ in range(30)) == late
    assert slots.take("third") is (slots.free > 0 or free >= 4)


def test_what_a_tenant_has_already_counts() -> None:
    slots = Slots(free=3, taken=Counter(greedy=5))
    assert [slots.take(name) for name in ("greedy", "late", "late", "third", "third")] == [False, True, True, True, False]


def test_what_is_given_back_is_free_again() -> None:
    slots = Slots(free=2)
    assert [slots.take("a") for _ in range(2)] == [True, False]
    slots.give_back("a")
    assert (slots.free, slots.taken) == (2, Counter())
    assert slots.take("a")
