"""History of calls, collected in memory and written in batches by a thread: small ones after 0.2 s, large ones each second.

Bounded to the newest 10,000 rows per workload and 50,000 in total, and to 100,000 log lines or 64 MB; statistics are sums and always
kept. If the database is away, a batch is kept and merged with newer rows, within the same bounds; the oldest rows are dropped
and counted (`sless_history_dropped_total`).
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sless import metrics
from sless.domain.model import CallStatus, Invocation, LogLine
from sless.domain.ports import HistorySink
from sless.proxy.request import CallRecord
from sless.proxy.stats import MinuteStats, StatsKey, stats_key_of

_log = logging.getLogger(__name__)
ROWS_PER_WORKLOAD = 10_000
ROWS_IN_ALL = 50_000
LINES_IN_ALL = 100_000
LINE_CHARS_IN_ALL = 64 * 2**20
QUICK_SEC = 0.2
QUICK_SIZE = 100
"""Maximum size of a small batch, in rows and lines."""


@dataclass(slots=True)
class Batch:
    calls: dict[str, deque[CallRecord]] = field(default_factory=dict)
    stats: dict[StatsKey, MinuteStats] = field(default_factory=dict)
    lines: deque[LogLine] = field(default_factory=deque)
    size: int = 0
    line_chars: int = 0
    dropped_calls: int = 0
    dropped_lines: int = 0

    def add(self, call: CallRecord) -> None:
        self.stats_of(call).add(call)
        self.keep(call)

    def stats_of(self, call: CallRecord) -> MinuteStats:
        key = stats_key_of(call)
        found = self.stats.get(key)
        if found is None:
            found = self.stats[key] = MinuteStats(call)
        return found

    def keep(self, call: CallRecord) -> None:
        workload_id = call.route.workload_id
        rows = self.calls.get(workload_id)
        if rows is None:
            rows = self.calls[workload_id] = deque(maxlen=ROWS_PER_WORKLOAD)
        if len(rows) < ROWS_PER_WORKLOAD:
            self.size += 1
        else:
            self.dropped_calls += 1
        rows.append(call)
        if self.size > ROWS_IN_ALL:
            longest = max(self.calls.values(), key=len)
            longest.popleft()
            self.size -= 1
            self.dropped_calls += 1

    def put_before(self, newer: "Batch") -> "Batch":
        """This unwritten batch, merged with a newer one."""
        for key, sums in newer.stats.items():
            if key in self.stats:
                self.stats[key].merge(sums)
            else:
                self.stats[key] = sums
        for rows in newer.calls.values():
            for call in rows:
                self.keep(call)
        self.add_lines(newer.lines)
        self.dropped_calls += newer.dropped_calls
        self.dropped_lines += newer.dropped_lines
        return self

    def add_lines(self, lines: Iterable[LogLine]) -> None:
        for line in lines:
            self.lines.append(line)
            self.line_chars += len(line.text)
        while len(self.lines) > LINES_IN_ALL or self.line_chars > LINE_CHARS_IN_ALL:
            self.line_chars -= len(self.lines.popleft().text)
            self.dropped_lines += 1

    def report_dropped(self) -> None:
        """Logs and counts dropped rows, once."""
        if self.dropped_calls or self.dropped_lines:
            _log.warning("the history buffer is full: dropped %d calls and %d log lines", self.dropped_calls, self.dropped_lines)
            metrics.history_dropped.labels("calls").inc(self.dropped_calls)
            metrics.history_dropped.labels("lines").inc(self.dropped_lines)
            self.dropped_calls = self.dropped_lines = 0

    def __bool__(self) -> bool:
        return bool(self.stats or self.lines)

    def __len__(self) -> int:
        return self.size + len(self.lines)


class Recorder:
    """`add` is called on the event loop, `add_lines` from any thread."""

    def __init__(self, sink: HistorySink, *, every_sec: float = 1.0, observer: Callable[[Batch], None] | None = None) -> None:
        self._sink = sink
        self._every_sec = every_sec
        self._observer = observer
        self._lock = threading.Lock()
        self._batch = Batch()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._well = True
        """The last flush succeeded."""

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Writes the rest. Blocks."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def add(self, call: CallRecord) -> None:
        with self._lock:
            self._batch.add(call)

    def add_lines(self, lines: Iterable[LogLine]) -> None:
        with self._lock:
            self._batch.add_lines(lines)

    def flush(self) -> bool:
        """Writes the batch. False when the sink failed and the batch was kept."""
        with self._lock:
            batch, self._batch = self._batch, Batch()
        if not batch:
            return True
        batch.report_dropped()
        rows = [invocation_of(call) for calls in batch.calls.values() for call in calls]
        try:
            self._sink.add_history(rows, [sums.row(key) for key, sums in batch.stats.items()], list(batch.lines))
        except Exception:
            _log.exception("cannot write the history of %d calls yet; retrying", len(rows))
            with self._lock:
                self._batch = batch.put_before(self._batch)
            return False
        if self._observer is not None:
            self._observer(batch)
        return True

    def _run(self) -> None:
        """A small batch is written soon, because a user who has just made a call looks for it; larger ones less often, which costs less."""
        waited_sec = 0.0
        quick_sec = min(QUICK_SEC, self._every_sec)
        while not self._stopping.wait(quick_sec):
            waited_sec += quick_sec
            if waited_sec >= self._every_sec or (len(self._batch) <= QUICK_SIZE and self._well):
                self._well = self.flush()
                waited_sec = 0.0
        if not self.flush():
            metrics.history_dropped.labels("calls").inc(self._batch.size)
            metrics.history_dropped.labels("lines").inc(len(self._batch.lines))
            _log.error(
                "the last history could not be written: %d calls and %d log lines are lost", self._batch.size, len(self._batch.lines)
            )


def invocation_of(call: CallRecord) -> Invocation:
    route = call.route
    started_at = datetime.fromtimestamp(call.started_at, UTC)
    return Invocation(
        id=call.id, request_id=call.request_id, namespace=route.namespace, workload_id=route.workload_id, kind=route.kind, name=route.name,
        version=call.version, trigger=call.trigger, method=call.method, path=call.path.decode("latin-1"),
        status=call.status or CallStatus.FAILED, http_status=call.http_status, duration_ms=round(call.duration_ms, 3), cold=call.cold,
        attempts=call.attempts, error=call.error, request_bytes=call.request_bytes, response_bytes=call.response_bytes,
        started_at=started_at, finished_at=datetime.fromtimestamp(call.started_at + call.duration_ms / 1000, UTC),
    )  # fmt: skip
