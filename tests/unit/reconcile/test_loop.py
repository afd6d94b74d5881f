"""Loops tick at their interval and on a wake, also one during a tick, and survive failing ticks."""

import threading
import time

from apscheduler.executors.pool import ThreadPoolExecutor

from sless.domain.ports import BackendUnavailable
from sless.reconcile.loop import Loop, Loops


def started(loops, is_leader=lambda: True) -> Loops:
    item = Loops(loops, is_leader, lambda topic, error: None)
    item.start()
    return item


def test_a_wake_during_a_tick_is_not_lost():
    entered, go_on, ticks = threading.Event(), threading.Event(), []

    def tick():
        ticks.append(1)
        entered.set()
        assert go_on.wait(10)
        if len(ticks) == 2:
            second.set()

    second = threading.Event()
    loops = started([Loop(topic="a", tick=tick, interval_sec=3600)])
    try:
        assert entered.wait(10)
        loops.wake("a")
        go_on.set()
        assert second.wait(10)
    finally:
        go_on.set()
        loops.stop()
    assert len(ticks) == 2


def test_a_wake_ticks_at_once_and_unknown_topics_are_ignored():
    seen = threading.Semaphore(0)
    loops = started([Loop(topic="a", tick=lambda: seen.release(), interval_sec=3600)])
    try:
        assert seen.acquire(timeout=10)
        loops.wake("nobody")
        loops.wake("a")
        assert seen.acquire(timeout=10)
    finally:
        loops.stop()


def test_a_failing_tick_is_followed_by_the_next():
    seen, errors = threading.Semaphore(0), [BackendUnavailable("away"), ValueError("bug")]

    def tick():
        seen.release()
        if errors:
            raise errors.pop()

    loops = started([Loop(topic="a", tick=tick, interval_sec=0.05)])
    try:
        for _ in range(4):
            assert seen.acquire(timeout=10)
    finally:
        loops.stop()


def test_only_the_leader_ticks():
    leading, here, everywhere = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)
    loops = started(
        [
            Loop(topic="a", tick=lambda: here.release(), interval_sec=0.05),
            Loop(topic="b", tick=lambda: everywhere.release(), interval_sec=0.05, leader_only=False),
        ],
        leading.is_set,
    )
    try:
        for _ in range(3):
            assert everywhere.acquire(timeout=10)
        assert not here.acquire(blocking=False)
        leading.set()
        assert here.acquire(timeout=10)
    finally:
        loops.stop()


def test_a_wake_at_the_end_of_a_tick_is_not_lost(monkeypatch):
    """The tick has ended, but APScheduler has not noted it yet."""
    ended, go_on, began = threading.Event(), threading.Event(), threading.Semaphore(0)
    note_end = ThreadPoolExecutor._run_job_success

    def note_late(self, *arguments):
        ended.set()
        assert go_on.wait(10)
        note_end(self, *arguments)

    def tick():
        began.release()
        time.sleep(0.1)  # a tick that ends before it is handed over is noted by the scheduler itself

    monkeypatch.setattr(ThreadPoolExecutor, "_run_job_success", note_late)
    loops = started([Loop(topic="a", tick=tick, interval_sec=3600)])
    try:
        assert began.acquire(timeout=10) and ended.wait(10)
        loops.wake("a")
        assert began.acquire(timeout=5)
    finally:
        go_on.set()
        loops.stop()
