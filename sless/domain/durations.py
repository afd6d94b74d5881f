"""How long the backends, the leader and the server wait before they act."""

from dataclasses import dataclass, fields, replace
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Seconds. Tests pass shorter ones: `Durations().scaled(0.1)`, or single fields. A part gets them as an argument, a server through
    `app.build`: `server.serve(settings, functools.partial(app.build, durations=Durations().scaled(0.1)))`."""

    # --- leader and server ---
    lease_sec: float = 12.0
    """A killed leader is replaced after this time and at most one `lease_look_sec`."""
    lease_renew_sec: float = 4.0
    lease_margin_sec: float = 2.0
    """How much sooner than the lease its holder stops leading, so that a tick that has begun can end."""
    lease_look_sec: float = 1.0
    """How often a replica that does not lead checks the lease: one row. A released lease is taken within this time."""
    tick_sec: float = 1.0
    """Interval of the control loops; a wake makes a tick sooner."""
    collect_sec: float = 60.0
    """Interval of the clean-up."""
    prune_sec: float = 20.0
    """Interval at which versions beyond the limit are removed."""
    drain_margin_sec: float = 10.0
    """Part of the time for the shutdown that is kept for history, instances and the store."""
    head_sec: float = 10.0
    """Time for a request head to arrive."""
    body_sec: float = 60.0
    """How long a caller may be silent in the middle of a request body."""
    write_sec: float = 60.0
    """How often a caller that reads its answer slowly is looked at."""
    routes_sec: float = 0.5
    """How long a request that changes routes waits until this process has read them."""

    # --- scaling ---
    stable_window_sec: float = 60.0
    """How long fewer instances must have been enough before some are stopped."""
    demand_sec: float = 0.5
    """How often replicas tell the leader what their calls need, and the leader reads it."""
    demand_age_sec: float = 3.0
    """After this time, what a replica told counts as nothing: it has been killed."""

    # --- instances, local ---
    start_sec: float = 60.0
    """An instance that is not ready by then counts as crashed."""
    settle_sec: float = 1.5
    """How long a draining instance still takes calls: proxies read their routes once a second."""
    unlimited_drain_sec: float = 60.0
    """Time for running calls to end when the revision has no time limit and nothing of it shall run any more."""
    unlimited_call_sec: float = 3600.0
    """The same when other instances take its place, or fewer are needed."""
    stop_sec: float = 12.0
    """From SIGTERM to SIGKILL; a runtime takes at most 10 s."""
    unresponsive_stop_sec: float = 2.0
    """The same when every call in the instance hangs."""
    overdue_grace_sec: float = 2.0
    """How long calls may be overdue before their instance is replaced."""
    unresponsive_grace_sec: float = 5.0
    """How long health checks may fail before the instance is replaced."""
    max_back_off_sec: float = 300.0
    restart_window_sec: float = 60.0
    """Period in which only so many instances that had served are replaced without a back-off."""
    run_stop_sec: float = 2.0
    """From SIGTERM to SIGKILL for a run over its time limit."""
    close_sec: float = 10.0
    """Time for calls and runs to end when the server stops."""

    # --- builds ---
    import_sec: float = 60.0
    """Time for the import of the entrypoint that ends a build; in a cluster from the start of its container."""
    pod_start_sec: float = 20.0
    """How long a pod of a build may fail to start: scheduling and a brief failure of the registry take some time."""

    # --- Kubernetes ---
    busy_look_sec: float = 0.5
    idle_look_sec: float = 10.0
    """How often the view of the cluster is judged again although nothing has changed: while something is changing, and otherwise."""
    cache_sec: float = 15.0
    """How often the leader looks for what is missing or no longer needed."""
    empty_namespace_sec: float = 60.0
    """How long an empty tenant namespace is kept, so that a function created soon after reuses it."""
    orphan_sec: float = 120.0
    """How long an object must have been without use before it is deleted."""
    refused_run_sec: float = 15.0
    """How long a run may be kept from starting before it fails: pulls are retried, quota is given back."""
    flush_sec: float = 2.0
    """How long after the stop of a server pending writes may still begin."""

    def scaled(self, factor: float) -> Self:
        return replace(self, **{field.name: getattr(self, field.name) * factor for field in fields(self)})
