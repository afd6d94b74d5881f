"""Limits of tenants that calls have exceeded in this process; the tenants get notices of them."""

import threading
import time
from collections.abc import Mapping

from sless.domain.limits import LimitExceeded, LimitName

_HOUR_SEC = 3600
_MOST = 10_000
"""Maximum number of (namespace, limit) in memory. Beyond it all are forgotten; the store writes each notice only once anyway."""

Key = tuple[str, LimitName]


class LimitsReached:
    """Thread-safe. Takes each limit of a tenant once an hour, so a flood of refused calls writes nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted: dict[Key, int] = {}
        self._fresh: dict[Key, LimitExceeded] = {}

    def note(self, namespace: str, error: Exception) -> None:
        """Ignores other errors than LimitExceeded."""
        if not isinstance(error, LimitExceeded):
            return
        key, hour = (namespace, error.limit), int(time.time()) // _HOUR_SEC
        with self._lock:
            if self._noted.get(key) == hour:
                return
            if len(self._noted) >= _MOST:
                self._noted.clear()
            self._noted[key] = hour
            self._fresh[key] = error

    def take(self) -> Mapping[Key, LimitExceeded]:
        """Those that were noted since the last time."""
        with self._lock:
            taken, self._fresh = self._fresh, {}
        return taken

    def put_back(self, taken: Mapping[Key, LimitExceeded]) -> None:
        with self._lock:
            self._fresh = {**taken, **self._fresh}
