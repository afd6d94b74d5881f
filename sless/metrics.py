"""Metrics, their one home. Names and labels are stable; no label names a tenant or a function, so their number stays small.

The request path counts in plain numbers (`HTTP`, `CALLS`) that are turned into samples when somebody scrapes; everything else uses the
client library's own counters.
"""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from sless._version import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REGISTRY = CollectorRegistry()

builds = Counter("sless_builds", "Builds that ended.", ["result"], registry=REGISTRY)
reconcile_errors = Counter("sless_reconcile_errors", "Ticks and objects a reconciler could not handle.", ["loop"], registry=REGISTRY)
run_attempts = Counter(
    "sless_run_attempts", "Attempts of jobs, asynchronous calls and firings, by how they ended.", ["trigger", "status"], registry=REGISTRY
)
callbacks = Counter("sless_callbacks", "Callbacks sent: delivered, retried, or failed for good.", ["result"], registry=REGISTRY)
messages = Counter("sless_messages", "AMQP messages by how an attempt at them ended.", ["status"], registry=REGISTRY)
queue_depth = Gauge("sless_queue_depth", "What waits to be started.", ["queue"], registry=REGISTRY)
cron_firings = Counter(
    "sless_cron_firings", "Instants of cron triggers: fired, skipped, missed, or lost (target not there).", ["result"], registry=REGISTRY
)
cron_triggers = Gauge("sless_cron_triggers", "Enabled cron triggers, on the server that leads.", registry=REGISTRY)
cron_delay = Histogram(
    "sless_cron_delay_seconds", "From the instant of a cron trigger until its claim was durable.", registry=REGISTRY,
    buckets=(0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 3, 5, 10, 30, 60, 300),
)  # fmt: skip
build_info = Gauge("sless_build_info", "Always 1; the version is a label.", ["version"], registry=REGISTRY)
build_info.labels(version=__version__).set(1)


class HttpRequests(Collector):
    """Requests to the server by part and status. Counted on the event loop only."""

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


class Calls(Collector):
    """Invocations by outcome, and how long they took. Added up batch by batch by the recorder's thread."""

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
        """`counts` has one more number than `bounds_ms`: the rest."""
        if not self._buckets:
            self._bounds_ms, self._buckets = bounds_ms, [0] * len(counts)
        self._buckets = [have + more for have, more in zip(self._buckets, counts, strict=True)]
        self._sum_ms += sum_ms

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily("sless_invocations", "Calls by outcome.", labels=["kind", "trigger", "status"])
        for labels, number in list(self._outcomes.items()):
            family.add_metric(list(labels), number)
        yield family
        latency = HistogramMetricFamily("sless_invocation_duration_seconds", "Time from the request to the end of the answer.")
        buckets, total = [], 0
        for index, number in enumerate(self._buckets):
            total += number
            bound = self._bounds_ms[index] / 1000 if index < len(self._bounds_ms) else float("inf")
            buckets.append((f"{bound:g}" if bound != float("inf") else "+Inf", total))
        if buckets:
            latency.add_metric([], buckets, self._sum_ms / 1000)
        yield latency


HTTP = HttpRequests()
CALLS = Calls()
REGISTRY.register(HTTP)
REGISTRY.register(CALLS)


def exposition() -> bytes:
    """Everything in Prometheus' text format (CONTENT_TYPE)."""
    return generate_latest(REGISTRY)
