"""One leader among the replicas: a lease row with an expiry.

The holder's name is kept in the data folder, which one process at a time may own; so a server that comes back after kill -9 still
holds its own lease and goes on at once, while another replica has to wait for the expiry.
"""

import logging
import threading
import time
from collections.abc import Callable

from sless.store import Store

_log = logging.getLogger(__name__)

LEASE = "leader"
TTL_SEC = 12
RENEW_SEC = 4
LOOK_SEC = 1
"""How often who does not lead looks whether somebody does: one row, read. A lease that is given back is taken within this time, one whose
holder was killed within TTL_SEC more."""


class Leader:
    def __init__(self, store: Store, holder: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._holder = holder
        self._monotonic = monotonic
        self._until = 0.0
        self._renew_at = 0.0
        self._lock = threading.Lock()

    def is_leader(self) -> bool:
        """False as soon as the lease could have expired by our own clock, whatever the database says."""
        return self._monotonic() < self._until

    def keep(self) -> bool:
        """For a tick each LOOK_SEC: renews when it is time, takes a lease that nobody holds. True when leadership began with this call."""
        if self.is_leader():
            return self.renew() if self._monotonic() >= self._renew_at else False
        return self.renew() if self._store.leases.holder(LEASE) in (None, self._holder) else False

    def renew(self) -> bool:
        """Takes or renews the lease. True when leadership began with this call."""
        with self._lock:
            asked_at = self._monotonic()
            before = asked_at < self._until
            held = self._store.leases.acquire(LEASE, self._holder, TTL_SEC)
            self._renew_at = asked_at + RENEW_SEC
            # Two seconds less than the row says: a tick that began as a leader has them to end.
            self._until = asked_at + TTL_SEC - 2 if held else 0.0
            if held != before:
                _log.info("this server %s", "leads now" if held else "no longer leads")
            return held and not before

    def resign(self) -> None:
        with self._lock:
            self._until = 0.0
            self._store.leases.release(LEASE, self._holder)
