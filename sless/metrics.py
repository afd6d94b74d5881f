"""All metrics. Names and labels are stable. No label names a tenant or a function, so the number of series stays small.

The request path counts in plain integers (`HTTP`, `CALLS`), which become samples when scraped; everything else uses the counters of the
client library.
"""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Counter
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from sless._version import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REGISTRY = CollectorRegistry()

builds = Counter("sless_builds", "Builds by result.", ["result"], registry=REGISTRY)
reconcile_errors = Counter("sless_reconcile_errors", "Ticks and objects that a reconciler failed to handle.", ["loop"], registry=REGISTRY)
run_attempts = Counter(
    "sless_run_attempts", "Attempts to run jobs, asynchronous calls and firings, by outcome.", ["trigger", "status"], registry=REGISTRY
)
callbacks = Counter("sless_callbacks", "Callbacks by result: delivered, retried, or failed.", ["result"], registry=REGISTRY)
history_dropped = Counter(
    "sless_history_dropped", "Rows that the bounds of the history buffer dropped: calls, lines.", ["kind"], registry=REGISTRY
)
notices = Counter("sless_notices", "Notices to tenants by result: delivered, retried, or failed.", ["result"], registry=REGISTRY)
code_checks = Counter(
    "sless_code_checks", "Checks of uploaded code, by result; partial: some files were skipped.", ["check", "result"], registry=REGISTRY
)
llm_tokens = Counter("sless_llm_tokens", "Tokens that the model for code checks has counted.", ["kind"], registry=REGISTRY)
sign_in_failures = Counter("sless_sign_in_failures", "Requests refused because of their token.", registry=REGISTRY)
messages = Counter("sless_messages", "Attempts to process AMQP messages, by outcome.", ["status"], registry=REGISTRY)
queue_depth = Gauge("sless_queue_depth", "Entries waiting in each queue.", ["queue"], registry=REGISTRY)
waiting_calls = Gauge("sless_waiting_calls", "Calls that wait for an instance or a run slot.", registry=REGISTRY)
overloaded_calls = Counter(
    "sless_overloaded_calls",
    "Calls refused because too many were waiting, by limit: workload or process.",
    ["limit"],
    registry=REGISTRY,
)
instances = Gauge("sless_instances", "Instances by state: ready, starting, draining. On the leader.", ["state"], registry=REGISTRY)
cold_starts = Counter("sless_cold_starts", "Starts of a first instance because a call found none. On the leader.", registry=REGISTRY)
queue_wait = Histogram(
    "sless_queue_wait_seconds", "Time that a call waited for an instance, of calls that found none free and got one.", registry=REGISTRY,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 1.5, 2.5, 5, 10, 30),
)  # fmt: skip
cron_firings = Counter(
    "sless_cron_firings", "Instants of cron triggers: fired, skipped, missed, or lost (no target).", ["result"], registry=REGISTRY
)
cron_triggers = Gauge("sless_cron_triggers", "Enabled cron triggers, on the leader.", registry=REGISTRY)
cron_delay = Histogram(
    "sless_cron_delay_seconds", "Time from the instant of a cron trigger until its claim is durable.", registry=REGISTRY,
    buckets=(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 3, 5, 10, 30, 60, 300),
)  # fmt: skip
build_info = Gauge("sless_build_info", "Always 1; the version is a label.", ["version"], registry=REGISTRY)
build_info.labels(version=__version__).set(1)


class HttpRequests(Collector):
    """Requests to the server by part and status. Use it on the event loop only."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}

    def count(self, part: str, status: int) -> None:
        key = (part, status)
        self._counts[key] = self._counts.get(key, 0) + 1

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily("sless_http_requests", "HTTP requests by part of the server and status.", labels=["part", "status"])
        for (part, status), number in list(self._counts.items()):
            family.add_metric([part, str(status)], number)
        yield family


class CallCounts(Collector):
    """Invocations by outcome, and their durations. The recorder's thread adds them in batches."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, str, str], int] = {}
        self._bounds_ms: Sequence[float] = ()
        self._buckets: list[int] = []
        self._sum_ms = 0.0

    def add_outcomes(self, outcomes: dict[tuple[str, str, str], int]) -> None:
        """Keys are (kind, trigger, status)."""
        for key, number in outcomes.items():
            self._outcomes[key] = self._outcomes.get(key, 0) + number

    def add_latency(self, bounds_ms: Sequence[float], counts: Sequence[int], sum_ms: float) -> None:
        """`counts` has one more number than `bounds_ms`, for durations above the last bound."""
        if not self._buckets:
            self._bounds_ms, self._buckets = bounds_ms, [0] * len(counts)
        self._buckets = [have + more for have, more in zip(self._buckets, counts, strict=True)]
        self._sum_ms += sum_ms

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily("sless_invocations", "Calls by outcome.", labels=["kind", "trigger", "status"])
        for labels, number in list(self._outcomes.items()):
            family.add_metric(list(labels), number)
        yield family
        latency = HistogramMetricFamily("sless_invocation_duration_seconds", "Time from the request to the end of the response.")
        buckets, total = [], 0
        for index, number in enumerate(self._buckets):
            total += number
            bound = self._bounds_ms[index] / 1000 if index < len(self._bounds_ms) else float("inf")
            buckets.append((f"{bound:g}" if bound != float("inf") else "+Inf", total))
        if buckets:
            latency.add_metric([], buckets, self._sum_ms / 1000)
        yield latency


HTTP = HttpRequests()
CALLS = CallCounts()
REGISTRY.register(HTTP)
REGISTRY.register(CALLS)


def clear_leader_metrics() -> None:
    """Removes the metrics of the leader, which another server counts from now on."""
    instances.clear()
    cron_triggers.set(0)
    queue_depth.clear()


def exposition() -> bytes:
    """All metrics in the Prometheus text format (CONTENT_TYPE)."""
    return generate_latest(REGISTRY)
