"""Revoked tokens: a copy of the store's list that is at most a second old."""

import logging
import threading
import time
from collections.abc import Callable, Collection

from sless.errors import SlessError

_log = logging.getLogger(__name__)

FRESH_SEC = 1.0


class RevokedTokens:
    """`read` returns the ids (`jti`) of all revoked tokens that have not expired. Thread-safe."""

    def __init__(self, read: Callable[[], Collection[str]], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._ids: frozenset[str] | None = None
        self._read_at = float("-inf")

    def __contains__(self, token_id: str) -> bool:
        """Raises SlessError if the list has never been read, because the token may be revoked."""
        if self._clock() - self._read_at >= FRESH_SEC and self._lock.acquire(blocking=self._ids is None):
            try:
                self._refresh()
            finally:
                self._lock.release()
        ids = self._ids
        return ids is not None and token_id in ids

    def forget(self) -> None:
        """Call this when the list has changed, so that it is read before the next answer."""
        self._read_at = float("-inf")

    def _refresh(self) -> None:
        now = self._clock()
        if now - self._read_at < FRESH_SEC:
            return
        try:
            self._ids = frozenset(self._read())
        except SlessError as error:
            if self._ids is None:
                raise
            _log.warning("the list of revoked tokens cannot be read, the one before stays in use: %s", error)
        self._read_at = now
