"""Writes to the cluster in the background, by a small pool: one write at a time per key, of which the newest replaces waiting ones."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sless.domain.durations import backoff_sec
from sless.errors import Code, SlessError
from sless.kube import Conflict, KubeError, Refused, Unavailable

_log = logging.getLogger(__name__)

THREADS = 4
MAX_BACK_OFF_SEC = 30.0

Work = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFailure:
    """`until`: end of the back-off (monotonic). `message` is for users; "" if the API was only unavailable."""

    message: str
    attempts: int
    until: float
    final: bool = False
    """A retry cannot help."""


class Writer:
    """Calls `changed` after each write, from its thread."""

    def __init__(self, changed: Callable[[], None], flush_sec: float) -> None:
        self._changed = changed
        self._flush_sec = flush_sec
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="sless-kube")
        self._lock = threading.Lock()
        self._waiting: dict[str, Work] = {}
        self._running: set[str] = set()
        self._failures: dict[str, WriteFailure] = {}
        self._closed = False
        self._until = float("inf")

    def put(self, key: str, work: Work) -> None:
        """Runs `work` soon, in place of waiting work of this key. Does nothing during the key's back-off."""
        with self._lock:
            if self._closed or self._rests(key):
                return
            self._waiting[key] = work
            if key not in self._running:
                self._running.add(key)
                self._pool.submit(self._run, key)

    def drop(self, key: str) -> bool:
        """Forgets waiting work and failures of the key. Returns whether a write is in progress."""
        with self._lock:
            self._waiting.pop(key, None)
            self._failures.pop(key, None)
            return key in self._running

    def is_busy(self, key: str = "") -> bool:
        with self._lock:
            return key in self._running if key else bool(self._running)

    def find_failure(self, key: str) -> WriteFailure | None:
        with self._lock:
            return self._failures.get(key)

    def failures(self) -> dict[str, WriteFailure]:
        with self._lock:
            return dict(self._failures)

    def close(self) -> None:
        """Blocks until every write that began within `flush_sec` has ended. Drops the rest, which the next server finds missing."""
        with self._lock:
            self._closed = True
            self._until = time.monotonic() + self._flush_sec
        self._pool.shutdown(wait=True)

    def _rests(self, key: str) -> bool:
        failure = self._failures.get(key)
        return failure is not None and time.monotonic() < failure.until

    def _run(self, key: str) -> None:
        """Top of a pool thread."""
        while True:
            with self._lock:
                work = self._waiting.pop(key, None)
                if work is None or time.monotonic() > self._until:
                    self._running.discard(key)
                    break
            self._do(key, work)
        self._changed()

    def _do(self, key: str, work: Work) -> None:
        try:
            work()
        except KubeError as error:
            _log.warning("%s: %s (%d %s)", key, error.message, error.status, error.reason)
            self._failed(key, words_of(error), final=error.status in (400, 413, 422))
        except SlessError as error:
            self._failed(key, error.message, final=error.code is not Code.UNAVAILABLE)
        except Exception:
            _log.exception("%s failed", key)
            self._failed(key, "internal error; see the server's log", final=True)
        else:
            with self._lock:
                self._failures.pop(key, None)

    def _failed(self, key: str, message: str, *, final: bool) -> None:
        with self._lock:
            known = self._failures.get(key)
            attempts = (known.attempts if known else 0) + 1
            # The second attempt follows soon, since conflicts are brief.
            wait_sec = backoff_sec(attempts, first_sec=1.0, max_sec=MAX_BACK_OFF_SEC) if attempts > 1 else 0.5
            self._failures[key] = WriteFailure(message=message, attempts=attempts, until=time.monotonic() + wait_sec, final=final)


def words_of(error: KubeError) -> str:
    """The message for users; "" for temporary errors: no answer, or a concurrent change."""
    if isinstance(error, Unavailable | Conflict):
        return ""
    if "because it is being terminated" in error.message:
        return "the namespace in the cluster is still being deleted; this starts afterwards"
    if isinstance(error, Refused):
        return f"the cluster refuses it: {error.message}"
    return f"the cluster: {error.message}"
