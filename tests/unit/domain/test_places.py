from collections import Counter

import pytest

from sless.domain.places import Places


@pytest.mark.parametrize(("free", "greedy", "late"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 2, 1), (8, 4, 2), (20, 10, 5)])
def test_a_tenant_leaves_as_many_places_as_it_takes(free: int, greedy: int, late: int) -> None:
    """The only place there is may be taken by anybody; the last one of several by somebody who has none."""
    places = Places(free=free, taken=Counter())
    assert sum(places.take("greedy") for _ in range(30)) == greedy
    assert sum(places.take("late") for _ in range(30)) == late
    assert places.take("third") is (places.free > 0 or free >= 4)


def test_what_a_tenant_has_already_counts() -> None:
    places = Places(free=3, taken=Counter(greedy=5))
    assert [places.take(name) for name in ("greedy", "late", "late", "third", "third")] == [False, True, True, True, False]


def test_what_is_given_back_is_free_again() -> None:
    places = Places(free=2)
    assert [places.take("a") for _ in range(2)] == [True, False]
    places.give_back("a")
    assert (places.free, places.taken) == (2, Counter())
    assert places.take("a")
