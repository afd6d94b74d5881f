"""The thread that lists the cluster on demand, more often while something changes."""

import logging
import threading
import time
from collections.abc import Callable

from sless.backend.kubernetes.view import ObjectCache, View, read_view
from sless.domain.durations import Durations
from sless.domain.ports import BackendUnavailable
from sless.kube import Kube, KubeError

_log = logging.getLogger(__name__)

MAX_BACK_OFF_SEC = 5.0
ACTIVE_SEC = 15.0
"""How long after a change the cluster is listed at the faster rate."""
WANTED_SEC = 30.0
"""How long after the last request it keeps listing: replicas other than the leader ask only while they have runs."""
STALE_SEC = 15.0
SETTLE_SEC = 15.0
"""How long after an outage (at most as long as the outage) elapsed time is ignored."""
FIRST_SEC = 2.0


class Look:
    """Calls `on_view` and, on the leader only, `on_cache` in its thread. They may raise KubeError, which counts as a failed look."""

    def __init__(
        self, kube: Kube, cache: ObjectCache, durations: Durations, *, on_view: Callable[[View], None], on_cache: Callable[[View], None]
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._durations = durations
        self._on_view = on_view
        self._on_cache = on_cache
        self._view: View | None = None
        self._error = "the cluster has not been listed yet"
        self._looked_at = float("-inf")
        self._cached_at = float("-inf")
        self._wanted_until = self._leading_until = self._active_until = float("-inf")
        self._failed = 0
        self._blind_since = float("-inf")
        self._settled_at = float("-inf")
        self._asked = False
        self._wake = threading.Event()
        self._turn = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="sless-kube-look", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def view(self, *, leading: bool = False) -> View:
        """The last view. `leading`: the leader asks, so all kinds are listed. Raises BackendUnavailable when the last look failed or is too
        old."""
        self.want(leading=leading)
        if not self._asked:
            # A new server waits a moment for its first look instead of failing.
            self._asked = True
            self.refresh(0.0, FIRST_SEC)
        if self._view is None or self._error or time.monotonic() - self._looked_at > STALE_SEC or (leading and not self._cache.complete):
            self._wake.set()
            raise BackendUnavailable(self._error or "the cluster has not been listed for a while")
        return self._view

    def is_leading(self) -> bool:
        return time.monotonic() < self._leading_until

    def want(self, *, leading: bool = False) -> None:
        now = time.monotonic()
        self._wanted_until = now + WANTED_SEC
        if leading:
            self._leading_until = now + WANTED_SEC

    def active(self) -> None:
        """Something changes: list now, and often."""
        self._active_until = time.monotonic() + ACTIVE_SEC
        self.want()
        self._wake.set()

    def active_soon(self) -> None:
        """The same, called from the looking thread itself."""
        self._active_until = time.monotonic() + ACTIVE_SEC
        self.want()

    def refresh(self, max_age_sec: float, timeout_sec: float) -> None:
        """Waits for a look at most `max_age_sec` old. Must not be called from the looking thread."""
        self.active()
        deadline = time.monotonic() + timeout_sec
        with self._turn:
            self._turn.wait_for(lambda: deadline - timeout_sec - self._looked_at <= max_age_sec or self._stopping, timeout_sec)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            if time.monotonic() < self._wanted_until:
                self._look()
            self._wake.wait(self._pause_sec())

    def _pause_sec(self) -> float:
        if self._failed:
            # Callers waiting for a failing API would wake the thread constantly, so it sleeps.
            time.sleep(min(MAX_BACK_OFF_SEC, 0.25 * 2.0**self._failed))
            return 0.0
        return self._durations.busy_look_sec if time.monotonic() < self._active_until else self._durations.idle_look_sec

    def _look(self) -> None:
        """Edge of the thread's loop."""
        began = time.monotonic()
        try:
            view = read_view(self._kube, self._cache)
            self._read_cache(began)
            if self._failed:
                self._settled_at = time.monotonic() + min(SETTLE_SEC, time.monotonic() - self._blind_since)
            view.settled = time.monotonic() >= self._settled_at
            self._on_view(view)
            self._view, self._looked_at, self._error = view, began, ""
            if self._cached_at == began:
                self._on_cache(view)
            self._failed = 0
        except KubeError as error:
            self._trouble(error.message)
        except Exception as error:
            _log.exception("listing the cluster failed")
            self._trouble(f"internal error: {error}")
        with self._turn:
            self._turn.notify_all()

    def _read_cache(self, began: float) -> None:
        if not self.is_leading():
            return
        if not self._cache.complete:
            self._cache.read_all(self._kube)
            self._cached_at = began
        elif began - self._cached_at >= self._durations.cache_sec:
            self._cache.read_next(self._kube)
            self._cached_at = began

    def _trouble(self, message: str) -> None:
        self._failed += 1
        self._error = message
        if self._failed == 1:
            self._blind_since = self._looked_at
        if self._failed == 1:
            _log.warning("cannot list the cluster; nothing is changed: %s", message)
