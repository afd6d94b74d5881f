"""Leader election among the replicas: a lease row with an expiry.

The holder's name is kept in the data folder, which only one process at a time may use. A server restarted after kill -9 still holds its
lease and continues immediately; another replica waits until it expires.
"""

import logging
import threading
import time
from collections.abc import Callable

from sless.domain.durations import Durations
from sless.store import Store

_log = logging.getLogger(__name__)

LEASE = "leader"


class Leader:
    def __init__(
        self, store: Store, holder: str, *, durations: Durations | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._durations = durations or Durations()
        self._store = store
        self._holder = holder
        self._monotonic = monotonic
        self._until = 0.0
        self._renew_at = 0.0
        self._lock = threading.Lock()

    def is_leader(self) -> bool:
        """False as soon as the lease may have expired by our own clock, regardless of the database."""
        return self._monotonic() < self._until

    def keep(self) -> bool:
        """Renews the lease when due, or takes a free one. Called each `lease_check_sec`. True if leadership began with this call."""
        if self.is_leader():
            return self.renew() if self._monotonic() >= self._renew_at else False
        return self.renew() if self._store.leases.holder(LEASE) in (None, self._holder) else False

    def renew(self) -> bool:
        """Takes or renews the lease. True if leadership began with this call."""
        with self._lock:
            asked_at = self._monotonic()
            before = asked_at < self._until
            held = self._store.leases.acquire(LEASE, self._holder, self._durations.lease_sec)
            self._renew_at = asked_at + self._durations.lease_renew_sec
            # Shorter than the lease, so that a tick that began as a leader can end.
            self._until = asked_at + self._durations.lease_sec - self._durations.lease_margin_sec if held else 0.0
            if held != before:
                _log.info("this server %s", "leads now" if held else "no longer leads")
            return held and not before

    def resign(self) -> None:
        with self._lock:
            self._until = 0.0
            self._store.leases.release(LEASE, self._holder)
