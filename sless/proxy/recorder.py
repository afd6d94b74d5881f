"""Collects the history of calls in memory and hands it to a writer in batches: 0.2 s after the first entry, or once a batch is large.

The process that serves calls only makes compact records, because each microsecond of Python delays other calls. The writer
(`history_child`: a process with its own interpreter; `history_sink`: the recorder's thread) acknowledges batches by number. At most 64 MB
wait for it; beyond that, rows of the oldest batches are dropped and counted (`sless_history_dropped_total`); their sums are always kept.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple, Protocol

from sless import metrics
from sless.domain.call_sums import CallSums, Outcomes, SumsKey, merge_into
from sless.domain.history_batch import PlainCall, PlainLine, decode, encode, plain_line_of
from sless.domain.model import CallStatus, LogLine
from sless.domain.ports import Route
from sless.proxy.batch_queue import BatchQueue, Sealed
from sless.proxy.request import CallRecord

_log = logging.getLogger(__name__)
QUICK_SEC = 0.2
BATCH_CALLS = 512
_BATCH_CHARS = 256 * 1024
"""Limit on log text."""
_SHARE_CHARS = 32 * 1024
"""Limit per tenant and batch while the writer is behind, so that a flood only loses lines of its own tenant."""
MAX_BYTES = 64 * 2**20
STOP_SEC = 5.0
_FLUSH_SEC = 1.0
_IDLE_SEC = 60.0


class Acknowledgement(NamedTuple):
    """A writer's answer: the batches up to `number` are in the database, except the rows of `dropped` calls and lines."""

    number: int
    outcomes: Outcomes
    dropped_calls: int = 0
    dropped_lines: int = 0


class HistoryLink(Protocol):
    """The recorder's side of a writer, used by the recorder's thread. `wake` may come from any thread."""

    def pump(self, timeout_sec: float) -> None:
        """Sends batches and receives answers; returns after an answer, a `wake` or this time."""

    def wake(self) -> None:
        """Makes `pump` return."""

    def finish(self, timeout_sec: float) -> None:
        """Sends all batches and waits for their answers, for at most this time; then ends the writer."""


class Sender(Protocol):
    """The recorder as seen by the writer."""

    def take(self) -> Sealed | None: ...

    def take_back(self) -> None: ...

    def unwritten(self) -> bool: ...

    def written(self, answer: Acknowledgement) -> None: ...


MakeLink = Callable[[Sender], HistoryLink]


class Recorder:
    """`add` is called on the event loop, `add_lines` and `flush` from any thread."""

    def __init__(self, make_link: MakeLink, *, max_bytes: int = MAX_BYTES, observer: Callable[[Outcomes], None] | None = None) -> None:
        self._observer = observer
        self._lock = threading.Lock()
        self._acknowledged = threading.Condition(self._lock)
        self._queue = BatchQueue(max_bytes)
        self._routes: list[tuple[str, str, str, str, int, bool]] = []
        self._route_index: dict[int, tuple[int, Route]] = {}
        """By `id()` of the Route, which is kept alive by its entry here."""
        self._calls: list[PlainCall] = []
        self._lines: list[PlainLine] = []
        self._chars = 0
        self._chars_of: Counter[str] = Counter()
        """Size of log text by tenant, in the current batch."""
        self._crowded_bytes = max_bytes // 4
        self._sums: dict[SumsKey, CallSums] = {}
        """Sums of calls whose rows were dropped."""
        self._due_at: float | None = None
        """When to seal the current batch; None if it is empty."""
        self._dropped = [0, 0]
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._link = make_link(self)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Writes the rest, for at most STOP_SEC. Blocks."""
        self._stopping = True
        self._link.wake()
        if self._thread is not None:
            self._thread.join()
        self._report_lost()

    def add(self, call: CallRecord, status: CallStatus | None = None) -> None:
        """Adds an ended call. With `status` RUNNING, the call has only begun and will be added again; this is for calls with a message."""
        shown = (status or call.status or CallStatus.FAILED).value
        with self._lock:
            known = self._route_index.get(id(call.route))
            self._calls.append(
                (
                    known[0] if known is not None else self._index_of(call.route), call.id, call.request_id, call.version,
                    call.trigger.value, call.method, call.path, shown, call.http_status, call.started_at, call.duration_ms, call.cold,
                    call.error, call.request_bytes, call.response_bytes, call.attempts,
                )
            )  # fmt: skip
            if len(self._calls) >= BATCH_CALLS:
                self._seal()
            elif self._due_at is None:
                self._arm()

    def add_lines(self, lines: Iterable[LogLine]) -> None:
        """Lines passed together are written together."""
        plain = [(line.namespace or line.workload_id, plain_line_of(line)) for line in lines]
        with self._lock:
            crowded = self._queue.size_bytes > self._crowded_bytes
            for tenant, line in plain:
                self._chars_of[tenant] += len(line[-1])
                if crowded and self._chars_of[tenant] > _SHARE_CHARS:
                    self._dropped[1] += 1
                    continue
                self._lines.append(line)
                self._chars += len(line[-1])
                if self._chars > _BATCH_CHARS:
                    self._seal()
            if self._lines and self._due_at is None:
                self._arm()

    def flush(self, timeout_sec: float = _FLUSH_SEC) -> bool:
        """Waits until everything added so far is written. False if that takes longer."""
        with self._lock:
            self._seal()
            last = self._queue.last
        if self._thread is None:
            self._link.finish(0)
            self._report_dropped()
        with self._acknowledged:
            return self._acknowledged.wait_for(lambda: self._queue.written >= last, timeout_sec if self._thread else 0)

    # --- Sender ---

    def take(self) -> Sealed | None:
        with self._lock:
            return self._queue.take()

    def take_back(self) -> None:
        with self._lock:
            self._queue.take_back()

    def unwritten(self) -> bool:
        with self._lock:
            return bool(self._queue)

    def written(self, answer: Acknowledgement) -> None:
        with self._acknowledged:
            self._queue.acknowledge(answer.number)
            self._acknowledged.notify_all()
        if self._observer is not None:
            self._observer(answer.outcomes)
        self._report(answer.dropped_calls, answer.dropped_lines)

    # --- batches, with the lock ---

    def _arm(self) -> None:
        self._due_at = monotonic() + QUICK_SEC
        self._link.wake()

    def _index_of(self, route: Route) -> int:
        revision = route.revision
        index = len(self._routes)
        memory_mb = revision.memory_mb if revision else 0
        facts = (route.workload_id, route.namespace, route.kind.value, route.name, memory_mb, route.wants_instances)
        self._routes.append(facts)
        self._route_index[id(route)] = index, route
        return index

    def _seal(self) -> None:
        """Seals the current batch, and drops rows of the oldest batches beyond the limit."""
        self._due_at = None
        if not (self._calls or self._lines or self._sums):
            return
        self._queue.put(encode(self._routes, self._calls, self._sums, self._lines))
        self._routes, self._route_index, self._calls, self._lines, self._chars, self._sums = [], {}, [], [], 0, {}
        self._chars_of.clear()
        while (dropped := self._queue.drop_one()) is not None:
            batch = decode(dropped.data)
            self._dropped[0] += len(batch.calls)
            self._dropped[1] += len(batch.lines)
            merge_into(self._sums, batch.all_sums())
        self._link.wake()

    # --- the thread ---

    def _run(self) -> None:
        while not self._stopping:
            due_at = self._due_at
            self._link.pump(_IDLE_SEC if due_at is None else max(0.0, due_at - monotonic()))
            with self._lock:
                if self._due_at is not None and monotonic() >= self._due_at:
                    self._seal()
            self._report_dropped()
        with self._lock:
            self._seal()
        self._link.finish(STOP_SEC)

    def _report_dropped(self) -> None:
        with self._lock:
            calls, lines = self._dropped
            self._dropped = [0, 0]
        self._report(calls, lines)

    def _report(self, calls: int, lines: int) -> None:
        if calls or lines:
            _log.warning("history cannot be written fast enough: dropped %d calls and %d log lines", calls, lines)
            metrics.history_dropped.labels("calls").inc(calls)
            metrics.history_dropped.labels("lines").inc(lines)

    def _report_lost(self) -> None:
        self._report_dropped()
        with self._lock:
            self._seal()
            lost = [decode(sealed.data) for sealed in self._queue]
        calls, lines = sum(len(batch.calls) for batch in lost), sum(len(batch.lines) for batch in lost)
        if lost:
            metrics.history_dropped.labels("calls").inc(calls)
            metrics.history_dropped.labels("lines").inc(lines)
            _log.error("the last history could not be written: %d calls and %d log lines are lost", calls, lines)
