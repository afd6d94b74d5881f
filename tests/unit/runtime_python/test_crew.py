"""Which calls hand over the lead before they begin."""

import select
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from sless_runtime.crew import Crew, Worker
from sless_runtime.pace import CLOSE_CALLS, LEAST_SPREAD, MOST_SPREAD, Pace


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew(SimpleNamespace(), SimpleNamespace(close=lambda: None), lambda: None)
    yield made
    made.leave_to_parent()


@pytest.fixture
def pace() -> Pace:
    made = Pace()
    made.quick_calls = CLOSE_CALLS
    return made


def test_one_slow_call_does_not_move_the_next(pace: Pace) -> None:
    for _ in range(5):
        pace.note_slow()
        assert pace.spread == 0
        pace.quick_calls += CLOSE_CALLS


def test_several_slow_calls_move_the_next_ones_to_other_threads(pace: Pace) -> None:
    seen = []
    for _ in range(8):
        pace.note_slow()
        seen.append(pace.spread)
    assert seen[:4] == [0, LEAST_SPREAD, 2 * LEAST_SPREAD, 4 * LEAST_SPREAD]
    assert seen[-1] == MOST_SPREAD


def test_quick_calls_reset_the_count(pace: Pace) -> None:
    for _ in range(4):
        pace.note_slow()
    pace.spread = 0
    pace.quick_calls = CLOSE_CALLS
    pace.note_slow()
    assert pace.spread == 0
    pace.note_slow()
    assert pace.spread == LEAST_SPREAD


def test_concurrent_calls_do_not_count(crew: Crew) -> None:
    aside, leading = Worker(select.poll()), Worker(select.poll())
    leading.lease.append("a connection")
    crew.note_slow(aside)
    assert crew.pace.spread == 0
    crew.note_slow(leading)
    assert crew.pace.spread == LEAST_SPREAD


def test_the_main_thread_sleeps_when_nothing_happens(crew: Crew) -> None:
    crew._leader = Worker(select.poll())
    crew._turns += 1
    answers = [crew.tick() for _ in range(20)]
    assert answers[0] is True
    assert answers[-1] is False
    crew._turns += 1
    crew._asleep = False  # as the leader does, which wakes the main thread
    assert crew.tick() is True
