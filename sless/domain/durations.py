"""How long the backends, the leader and the server wait before they act, and the back-off formula for all retries."""

from dataclasses import dataclass, fields, replace
from typing import Self

_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """All in seconds. Tests pass shorter ones: `Durations().scaled(0.1)`, or single fields. Objects take them as an argument, a server
    through `app.build`: `server.serve(settings, functools.partial(app.build, durations=Durations().scaled(0.1)))`."""

    # --- leader and server ---
    lease_sec: float = 12.0
    """A killed leader is replaced after this time and at most one `lease_check_sec`."""
    lease_renew_sec: float = 4.0
    lease_margin_sec: float = 2.0
    """How long before its lease expires the leader stops leading, so that a running tick can end."""
    lease_check_sec: float = 1.0
    """How often other replicas read the lease (one row). A released lease is taken within this time."""
    tick_sec: float = 1.0
    """Interval of the control loops; waking one makes it tick sooner."""
    collect_sec: float = 60.0
    """Interval at which the collector deletes what is no longer needed."""
    prune_sec: float = 20.0
    """Interval at which versions beyond the limit are removed."""
    drain_margin_sec: float = 10.0
    """Part of the shutdown time reserved for history, instances and the store."""
    head_sec: float = 10.0
    """Time for a request head to arrive."""
    body_sec: float = 60.0
    """How long a caller may be silent in the middle of a request body."""
    write_sec: float = 60.0
    """How often the progress of a caller that reads its answer slowly is checked."""
    routes_sec: float = 0.5
    """How long a request that changes routes waits for this process to read them."""

    # --- scaling ---
    stable_window_sec: float = 60.0
    """How long fewer instances must have sufficed before some are stopped."""
    demand_sec: float = 0.5
    """How often replicas report their load to the leader, and the leader reads the reports."""
    demand_age_sec: float = 3.0
    """A report older than this is ignored, because its replica has probably been killed."""

    # --- instances, local ---
    start_sec: float = 60.0
    """An instance that is not ready by then counts as crashed."""
    settle_sec: float = 1.5
    """How long a draining instance still takes calls, since proxies read their routes only once a second."""
    unlimited_drain_sec: float = 60.0
    """Time for running calls to end when the revision has no time limit and all of its instances are removed."""
    unlimited_call_sec: float = 3600.0
    """Time for the same calls when the instance is replaced, or fewer are needed."""
    stop_sec: float = 12.0
    """From SIGTERM to SIGKILL; a runtime takes at most 10 s."""
    unresponsive_stop_sec: float = 2.0
    """From SIGTERM to SIGKILL when every call in the instance hangs."""
    overdue_grace_sec: float = 2.0
    """How long calls may be overdue before their instance is replaced."""
    unresponsive_grace_sec: float = 5.0
    """How long health checks may fail before the instance is replaced."""
    max_back_off_sec: float = 300.0
    restart_window_sec: float = 60.0
    """Period in which a limited number of instances that have served calls are replaced without back-off."""
    run_stop_sec: float = 2.0
    """From SIGTERM to SIGKILL for a run over its time limit."""
    close_sec: float = 10.0
    """Time for calls and runs to end when the server stops."""

    # --- builds ---
    import_sec: float = 60.0
    """Time limit of the trial import at the end of a build; in a cluster from the start of its container."""
    pod_start_sec: float = 20.0
    """How long a build's pod may fail to start, which allows for scheduling and a brief failure of the registry."""

    # --- Kubernetes ---
    busy_observe_sec: float = 0.5
    idle_observe_sec: float = 10.0
    """How often the view of the cluster is evaluated without an event: during a change (busy), and otherwise (idle)."""
    cache_sec: float = 15.0
    """How often the leader checks for objects that are missing or no longer needed."""
    empty_namespace_sec: float = 60.0
    """How long an empty tenant namespace is kept, so that a function created soon after reuses it."""
    orphan_sec: float = 120.0
    """How long an object must have been unused before it is deleted."""
    refused_run_sec: float = 15.0
    """How long a run's pod may fail to start before the run fails: pulls are retried, and quota may become free."""
    flush_sec: float = 2.0
    """How long pending writes may still begin after a server has stopped."""

    def scaled(self, factor: float) -> Self:
        return replace(self, **{field.name: getattr(self, field.name) * factor for field in fields(self)})


def backoff_sec(failures: int, *, first_sec: float, max_sec: float) -> float:
    """Seconds until the next attempt: `first_sec` after the first failure, twice as long after each further one, at most `max_sec`."""
    return min(max_sec, first_sec * 2.0 ** min(max(failures - 1, 0), _MAX_DOUBLINGS))
