"""Slots: running and waiting calls."""

import threading

from sless_runtime.calls import UNLIMITED_MS, Call, Slots


def call(timeout_sec: float | None = None) -> Call:
    return Call("", "", "http", timeout_sec)


def entering(slots: Slots, one: Call) -> tuple[threading.Thread, list[bool]]:
    """A thread that waits for a slot, with its result."""
    answers: list[bool] = []
    waiting = len(slots._waiting)
    thread = threading.Thread(target=lambda: answers.append(slots.enter(one)))
    thread.start()
    while len(slots._waiting) == waiting and thread.is_alive():
        thread.join(0.001)
    return thread, answers


def test_calls_are_admitted_in_order() -> None:
    slots = Slots(1)
    first, second, third = call(), call(), call()
    assert slots.enter(first)
    waiting_second, _ = entering(slots, second)
    waiting_third, _ = entering(slots, third)
    assert list(slots.running) == [first]
    slots.leave(first)
    waiting_second.join(5)
    assert list(slots.running) == [second]
    slots.leave(second)
    waiting_third.join(5)
    assert list(slots.running) == [third]


def test_an_overdue_call_frees_its_slot() -> None:
    slots = Slots(1)
    stuck = call(timeout_sec=0.05)
    assert slots.enter(stuck)
    assert slots.enter(call())
    assert slots.overdue_count() == 1
    assert stuck in slots.running


def test_a_call_that_waited_too_long_never_runs() -> None:
    slots = Slots(1)
    assert slots.enter(call())
    late = call(timeout_sec=0.05)
    assert not slots.enter(late)
    assert late not in slots.running
    assert not slots._waiting


def test_never_more_than_the_limit_at_once() -> None:
    slots = Slots(3)
    most: list[int] = []

    def work() -> None:
        for _ in range(200):
            one = call()
            slots.enter(one)
            most.append(len(slots.running))
            slots.leave(one)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(most) == 1600
    assert max(most) <= 3
    assert not slots.running


def test_ids_fall_back_to_each_other() -> None:
    assert Call("i", "", "http", None).request_id == "i"
    assert Call("", "r", "http", None).id == "r"
    assert len(call().id) == 32
    assert call().remaining_ms() == UNLIMITED_MS
    assert 9000 < call(timeout_sec=10).remaining_ms() <= 10_000
    assert call(timeout_sec=0).remaining_ms() == 0
