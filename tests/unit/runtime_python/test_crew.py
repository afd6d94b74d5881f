"""Which calls make way for others before they begin."""

import select
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from sless_runtime.crew import CLOSE_CALLS, LEAST_SPREAD, MOST_SPREAD, Crew, Worker


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew(SimpleNamespace(), SimpleNamespace(close=lambda: None), lambda: None)
    made.quick_calls = CLOSE_CALLS
    yield made
    made.leave_to_parent()


@pytest.fixture
def worker() -> Worker:
    """One that leads."""
    made = Worker(select.poll())
    made.lease.append("a connection")
    return made


def test_one_slow_call_says_nothing_of_the_next(crew: Crew, worker: Worker) -> None:
    for _ in range(5):
        crew.note_slow(worker)
        assert crew.spread == 0
        crew.quick_calls += CLOSE_CALLS


def test_slow_calls_close_together_make_the_next_ones_go_aside(crew: Crew, worker: Worker) -> None:
    seen = []
    for _ in range(8):
        crew.note_slow(worker)
        seen.append(crew.spread)
    assert seen[:4] == [0, LEAST_SPREAD, 2 * LEAST_SPREAD, 4 * LEAST_SPREAD]
    assert seen[-1] == MOST_SPREAD


def test_quick_calls_make_it_forget(crew: Crew, worker: Worker) -> None:
    for _ in range(4):
        crew.note_slow(worker)
    crew.spread = 0
    crew.quick_calls = CLOSE_CALLS
    crew.note_slow(worker)
    assert crew.spread == 0
    crew.note_slow(worker)
    assert crew.spread == LEAST_SPREAD


def test_what_runs_beside_others_says_nothing(crew: Crew, worker: Worker) -> None:
    worker.lease.clear()
    crew.quick_calls = 0
    crew.note_slow(worker)
    assert crew.spread == 0


def test_the_main_thread_sleeps_when_nothing_happens(crew: Crew, worker: Worker) -> None:
    worker.lease.clear()
    crew._leader = worker
    crew._turns += 1
    answers = [crew.tick() for _ in range(20)]
    assert answers[0] is True
    assert answers[-1] is False
    crew._turns += 1
    crew._asleep = False  # as the leader does, which wakes the main thread
    assert crew.tick() is True
