"""Encodes history for the process that writes it, and delimits messages on the pipes between both processes.

The format is marshal, which takes a microsecond per call where JSON takes ten; both processes run the same version of sless and Python. A
call is a plain tuple in the order of `CallEntry`; facts shared by the calls of a route are encoded once.
"""

import marshal
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sless.domain.call_sums import CallSums, RouteFacts, SumsKey, merge_into
from sless.domain.model import CallStatus, CallTrigger, Invocation, Kind, LogLine

ROWS_PER_WORKLOAD = 10_000
"""Rows written for one workload at a time, for its newest calls; older calls only count in the sums."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_HEAD = struct.Struct("<QI")
NUMBER_BYTES = 8
"""Size of a batch's number."""
"""Number and length of a message."""

PlainCall = tuple[Any, ...]
"""The fields of CallEntry, with an index into the routes instead of the facts."""
PlainLine = tuple[str, int, str, str, int, str, str]


class CallEntry(NamedTuple):
    """One ended call, or one that has begun (`status` running), which gets a row but counts in no sum. `version` is None if it reached no
    instance; `started_at` is in seconds since the epoch."""

    facts: RouteFacts
    id: str
    request_id: str
    version: int | None
    trigger: str
    method: str
    path: bytes
    status: str
    http_status: int | None
    started_at: float
    duration_ms: float
    cold: bool
    error: str | None
    request_bytes: int
    response_bytes: int
    attempts: int

    def invocation(self) -> Invocation:
        facts, ended = self.facts, self.status != CallStatus.RUNNING
        return Invocation(
            id=self.id, request_id=self.request_id, namespace=facts.namespace, workload_id=facts.workload_id, kind=Kind(facts.kind),
            name=facts.name, version=self.version, trigger=CallTrigger(self.trigger), method=self.method,
            path=self.path.decode("latin-1"), status=CallStatus(self.status), http_status=self.http_status,
            duration_ms=round(self.duration_ms, 3) if ended else None, cold=self.cold, attempts=self.attempts, error=self.error,
            request_bytes=self.request_bytes, response_bytes=self.response_bytes,
            started_at=datetime.fromtimestamp(self.started_at, UTC),
            finished_at=datetime.fromtimestamp(self.started_at + self.duration_ms / 1000, UTC) if ended else None,
        )  # fmt: skip


@dataclass(slots=True)
class HistoryBatch:
    """`sums` cover calls that are not in `calls`. `rows` are the calls to write as rows (`choose_rows`)."""

    calls: list[CallEntry] = field(default_factory=list)
    sums: dict[SumsKey, CallSums] = field(default_factory=dict)
    lines: list[LogLine] = field(default_factory=list)
    rows: list[CallEntry] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.calls) + len(self.lines)

    def all_sums(self) -> dict[SumsKey, CallSums]:
        """Sums of all ended calls, with and without rows."""
        found: dict[SumsKey, CallSums] = {}
        merge_into(found, self.sums)
        for call in self.calls:
            if call.status == CallStatus.RUNNING:
                continue
            key = (call.facts.workload_id, call.version or 0, int(call.started_at) // 60)
            sums = found.get(key)
            if sums is None:
                sums = found[key] = CallSums(call.facts)
            sums.add(call.facts, (call.trigger, call.status), call.duration_ms, call.response_bytes)
        return found


def choose_rows(batches: Sequence[HistoryBatch], per_workload: int = ROWS_PER_WORKLOAD) -> None:
    """Sets `rows` to the newest calls of each workload over all these batches, which are sorted oldest first."""
    if sum(len(batch.calls) for batch in batches) <= per_workload:
        for batch in batches:
            batch.rows = batch.calls
        return
    chosen: dict[str, int] = {}
    for batch in reversed(batches):
        rows = []
        for call in reversed(batch.calls):
            before = chosen.get(call.facts.workload_id, 0)
            if before < per_workload:
                chosen[call.facts.workload_id] = before + 1
                rows.append(call)
        batch.rows = rows[::-1]


def merged(batches: Sequence[HistoryBatch]) -> HistoryBatch:
    """Merges the batches into the first one, which it returns."""
    first = batches[0]
    for batch in batches[1:]:
        first.calls = first.calls + batch.calls
        first.rows = first.rows + batch.rows
        first.lines.extend(batch.lines)
        merge_into(first.sums, batch.sums)
    return first


def plain_line_of(line: LogLine) -> PlainLine:
    at = (line.at - _EPOCH) // _MICROSECOND
    return line.source_id, line.seq, line.workload_id, line.invocation_id, at, line.stream, line.text


def encode(routes: list[tuple[Any, ...]], calls: list[PlainCall], sums: dict[SumsKey, CallSums], lines: list[PlainLine]) -> bytes:
    return marshal.dumps((routes, calls, [(key, item.plain()) for key, item in sums.items()], lines))


def decode(data: bytes) -> HistoryBatch:
    routes, calls, sums, lines = marshal.loads(data)
    facts = [RouteFacts._make(route) for route in routes]
    return HistoryBatch(
        calls=[CallEntry(facts[call[0]], *call[1:]) for call in calls],
        sums={key: CallSums.of_plain(plain) for key, plain in sums},
        lines=list(_lines_of(lines)),
    )


def _lines_of(lines: Iterable[PlainLine]) -> Iterator[LogLine]:
    for source_id, seq, workload_id, invocation_id, at, stream, text in lines:
        moment = _EPOCH + timedelta(microseconds=at)
        yield LogLine(
            source_id=source_id, seq=seq, workload_id=workload_id, invocation_id=invocation_id, at=moment, stream=stream, text=text
        )  # fmt: skip


def message_of(number: int, data: bytes) -> bytes:
    return _HEAD.pack(number, len(data)) + data


def take_messages(received: bytearray) -> list[tuple[int, bytes]]:
    """Removes all complete messages from the front of what has been received."""
    found, at = [], 0
    while len(received) - at >= _HEAD.size:
        number, length = _HEAD.unpack_from(received, at)
        start = at + _HEAD.size
        if len(received) - start < length:
            break
        found.append((number, bytes(received[start : start + length])))
        at = start + length
    del received[:at]
    return found
