"""The thread that passes views of the cluster on, after changes and at intervals."""

import logging
import threading
import time
from collections.abc import Callable

from sless.backend.kubernetes.mirror import Mirror
from sless.backend.kubernetes.view import ClusterView, ObjectCache
from sless.domain.durations import Durations, backoff_sec
from sless.domain.ports import BackendUnavailable
from sless.kube import Kube, KubeError

_log = logging.getLogger(__name__)

MAX_BACK_OFF_SEC = 5.0
ACTIVE_SEC = 15.0
"""How long views are passed on at the faster rate after a change."""
WANTED_SEC = 30.0
"""How long the cluster is observed after the last request: replicas other than the leader make requests only while they have runs."""
QUIET_SEC = 60.0
ACTIVE_QUIET_SEC = 3.0
"""How long the API may be silent before it is probed: usually, and during changes."""
ANSWER_SEC = 5.0
"""How long it may take to answer before it counts as frozen. If it answers later, nothing has to be listed again."""
GATHER_SEC = 0.05
MOST_GATHER_SEC = 0.5
"""Changes within this time are passed on together; the time grows with the time it takes to evaluate a view."""
SETTLE_SEC = 15.0
"""How long elapsed time is ignored after an outage (at most as long as the outage took)."""
FIRST_SEC = 2.0


class Observer:
    """Calls `on_view` and, on the leader only, `on_cache` in its thread. If they raise KubeError, the observation counts as failed."""

    def __init__(
        self,
        kube: Kube,
        cache: ObjectCache,
        durations: Durations,
        *,
        on_view: Callable[[ClusterView], None],
        on_cache: Callable[[ClusterView], None],
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._durations = durations
        self._on_view = on_view
        self._on_cache = on_cache
        self._mirror = Mirror(kube, cache, self._on_change)
        self._view: ClusterView | None = None
        self._error = "the cluster has not been listed yet"
        self._listed_at = float("-inf")
        """Time of the last list or change."""
        self._asking_since: float | None = None
        self._list_wanted = False
        self._took_sec = 0.0
        self._cached_at = float("-inf")
        self._wanted_until = self._leading_until = self._active_until = float("-inf")
        self._failed = 0
        self._blind_since = float("-inf")
        self._settled_at = float("-inf")
        self._was_requested = False
        self._wake = threading.Event()
        self._turn = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="sless-kube-observer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping = True
        self._wake.set()
        self._mirror.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def view(self, *, leading: bool = False) -> ClusterView:
        """The last view. `leading`: the caller is the leader, so all kinds are observed. Raises BackendUnavailable if something cannot be
        observed or the API does not respond."""
        self.want(leading=leading)
        if not self._was_requested:
            # A new server waits a moment for its first observation instead of failing.
            self._was_requested = True
            self.refresh(0.0, FIRST_SEC)
        asking_since = self._asking_since
        silent = asking_since is not None and time.monotonic() - asking_since > ANSWER_SEC
        trouble = self._error or self._mirror.trouble()
        if self._view is None or trouble or silent or (leading and not self._mirror.is_complete()):
            self._wake.set()
            raise BackendUnavailable(trouble or ("the Kubernetes API does not answer" if silent else "the cluster is being listed"))
        return self._view

    def is_leading(self) -> bool:
        return time.monotonic() < self._leading_until

    def want(self, *, leading: bool = False) -> None:
        now = time.monotonic()
        self._wanted_until = now + WANTED_SEC
        if leading:
            self._leading_until = now + WANTED_SEC

    def active(self) -> None:
        """Call this before or after a change: observes now, and often for a while."""
        self._active_until = time.monotonic() + ACTIVE_SEC
        self.want()
        self._wake.set()

    def active_soon(self) -> None:
        """Like `active`, called from the thread itself."""
        self._active_until = time.monotonic() + ACTIVE_SEC
        self.want()

    def refresh(self, max_age_sec: float, timeout_sec: float) -> None:
        """Waits for a list at most `max_age_sec` old. Must not be called from the thread itself."""
        self._list_wanted = True
        self.active()
        deadline = time.monotonic() + timeout_sec
        with self._turn:
            self._turn.wait_for(lambda: deadline - timeout_sec - self._listed_at <= max_age_sec or self._stopping, timeout_sec)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            if time.monotonic() < self._wanted_until:
                self._observe()
            elif self._view is not None:
                self._mirror.stop()
                self._view, self._error = None, "the cluster is being listed"
            if self._wake.wait(self._pause_sec()) and not self._list_wanted:
                time.sleep(max(GATHER_SEC, min(MOST_GATHER_SEC, 2 * self._took_sec)))

    def _pause_sec(self) -> float:
        if self._failed:
            # Sleep, because callers waiting for a failing API would wake the thread constantly.
            time.sleep(backoff_sec(self._failed, first_sec=0.5, max_sec=MAX_BACK_OFF_SEC))
            return 0.0
        return self._durations.busy_observe_sec if time.monotonic() < self._active_until else self._durations.idle_observe_sec

    def _observe(self) -> None:
        """Body of the thread's loop."""
        began = time.monotonic()
        try:
            self._mirror.start(leading=self.is_leading())
            self._probe(began)
            view = self._mirror.view()
            if self._failed:
                self._settled_at = time.monotonic() + min(SETTLE_SEC, time.monotonic() - self._blind_since)
            view.settled = time.monotonic() >= self._settled_at
            self._on_view(view)
            self._view, self._error = view, ""
            if self.is_leading() and self._mirror.is_complete() and began - self._cached_at >= self._durations.cache_sec:
                self._cached_at = began
                self._cache.tidy()
                self._on_cache(view)
            self._failed = 0
            self._took_sec = time.monotonic() - began
        except KubeError as error:
            self._trouble(error.message)
        except Exception as error:
            _log.exception("listing the cluster failed")
            self._trouble(f"internal error: {error}")
        with self._turn:
            self._turn.notify_all()

    def _probe(self, now: float) -> None:
        """Probes a silent API, since silence may mean that nothing changes or that the API is frozen. Raises KubeError."""
        quiet_sec = ACTIVE_QUIET_SEC if now < self._active_until else QUIET_SEC
        try:
            if self._list_wanted or not self._mirror.has_listed():
                self._list_wanted = False
                self._asking_since = now
                self._mirror.list_now()
                self._listed_at = now
            elif now - self._mirror.responded_at > quiet_sec and not self._mirror.trouble():
                self._asking_since = now
                self._kube.check_alive()
                self._mirror.responded_at = time.monotonic()
        except KubeError:
            self._mirror.distrust()
            raise
        finally:
            self._asking_since = None

    def _on_change(self) -> None:
        self._active_until = time.monotonic() + ACTIVE_SEC
        self._wake.set()

    def _trouble(self, message: str) -> None:
        self._failed += 1
        self._error = message
        if self._failed == 1:
            self._blind_since = self._mirror.responded_at
        if self._failed == 1:
            _log.warning("cannot list the cluster; nothing is changed: %s", message)
