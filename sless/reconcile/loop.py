"""Runs control loops: APScheduler ticks each one at its interval, and `wake` immediately.

Running and woken loops are tracked here rather than in APScheduler, which drops a job that becomes due while it runs, and considers a job
running for slightly longer than its last statement.
"""

import logging
import threading
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from sless.domain.ports import BackendUnavailable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """`wake` takes the `topic`. A tick works from the whole state; `leader_only` loops only tick on the leader. `rest_sec` is the pause
    before a tick that was requested during the previous one, so that a busy loop does more per tick instead of ticking more often."""

    topic: str
    tick: Callable[[], None]
    interval_sec: float
    leader_only: bool = True
    rest_sec: float = 0.0


class Loops:
    """Runs all loops of one process; also the `ports.Waker`."""

    def __init__(self, loops: list[Loop], is_leader: Callable[[], bool], failed: Callable[[str, Exception], None]) -> None:
        """`failed` is called with the topic and the error of a tick."""
        self._loops = {loop.topic: loop for loop in loops}
        self._is_leader = is_leader
        self._failed = failed
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._woken: set[str] = set()
        """Topics with a pending tick."""
        self._stopping = False
        self._stopped = threading.Event()
        self._started = False
        self._pool = futures.ThreadPoolExecutor(max_workers=len(loops), thread_name_prefix="woken")
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(max_workers=len(loops) + 1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    def start(self) -> None:
        now = datetime.now(UTC)
        for number, loop in enumerate(self._loops.values(), start=1):
            # Spread ticks over the interval, because threads that wake at once wait for the interpreter most of the time.
            begin = now + timedelta(seconds=loop.interval_sec * number / len(self._loops))
            interval = IntervalTrigger(seconds=loop.interval_sec, start_date=begin)
            self._scheduler.add_job(self._run, interval, args=(loop,), id=loop.topic, next_run_time=now)
        self._started = True
        self._scheduler.start()

    def stop(self) -> None:
        """Returns once no tick is running."""
        with self._lock:
            self._stopping = True
        self._stopped.set()
        self._scheduler.shutdown(wait=True)
        self._pool.shutdown(wait=True)

    def wake(self, topic: str) -> None:
        """Starts the loop's next tick now, or after the running one and its pause. Called from any thread. Does nothing before `start`,
        since the first tick works from the whole state."""
        loop = self._loops.get(topic)
        with self._lock:
            if loop is None or not self._started or self._stopping or topic in self._woken:
                return
            self._woken.add(topic)
            if topic not in self._running:
                self._pool.submit(self._run, loop)

    def _run(self, loop: Loop) -> None:
        with self._lock:
            if loop.topic in self._running:
                return
            self._running.add(loop.topic)
        while not self._stopping:
            with self._lock:
                self._woken.discard(loop.topic)
            if not loop.leader_only or self._is_leader():
                self._tick(loop)
            with self._lock:
                if loop.topic not in self._woken:
                    self._running.discard(loop.topic)
                    return
            self._stopped.wait(loop.rest_sec)

    def _tick(self, loop: Loop) -> None:
        try:
            loop.tick()
        except BackendUnavailable as error:
            self._failed(loop.topic, error)
            _log.warning("%s: the backend cannot be observed, nothing is changed: %s", loop.topic, error)
        except Exception as error:
            self._failed(loop.topic, error)
            _log.exception("%s: the tick failed; the next one starts from the whole state", loop.topic)
