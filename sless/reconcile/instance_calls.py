"""Tracks asynchronous calls on instances, which no backend observes."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from sless.domain.model import Run
from sless.domain.ports import Invoker, ObservedRun


@dataclass(slots=True)
class _Call:
    stop: Callable[[], None] | None = None
    end: ObservedRun | None = None


class InstanceCalls:
    """Thread-safe. `changed` is called when a call has ended."""

    def __init__(self, invoker: Invoker, changed: Callable[[], None]) -> None:
        self._invoker = invoker
        self._changed = changed
        self._lock = threading.Condition()
        self._calls: dict[str, _Call] = {}

    def __contains__(self, run_id: str) -> bool:
        with self._lock:
            return run_id in self._calls

    def ids(self) -> set[str]:
        with self._lock:
            return set(self._calls)

    def begin(self, run: Run, timeout_sec: float) -> None:
        """Raises SlessError if the call cannot be started; it is then not tracked."""
        call = _Call()
        with self._lock:
            self._calls[run.id] = call
        try:
            call.stop = self._invoker.begin(run, timeout_sec, lambda end: self._ended(call, end))
        except BaseException:
            self.drop(run.id)
            raise

    def find_end(self, run_id: str) -> ObservedRun | None:
        """How the call ended; None while it runs, or if it is unknown."""
        with self._lock:
            call = self._calls.get(run_id)
            return call.end if call else None

    def drop(self, run_id: str) -> bool:
        """Stops the call if it is running, and forgets it. False if it is unknown."""
        with self._lock:
            call = self._calls.pop(run_id, None)
            self._lock.notify_all()
        if call is None:
            return False
        if call.end is None and call.stop is not None:
            call.stop()
        return True

    def wait_empty(self, timeout_sec: float) -> bool:
        """Returns whether all calls ended, and their ends were written, within the time."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._calls, timeout_sec)

    def _ended(self, call: _Call, end: ObservedRun) -> None:
        with self._lock:
            call.end = end
        self._changed()
