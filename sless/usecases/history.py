"""History: invocations, log lines, statistics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sless import clock
from sless.domain.model import CallStatus, CallTrigger, Invocation, Kind, LogLine, Workload
from sless.domain.statistics import Series, series_of
from sless.errors import Detail, Invalid
from sless.usecases.follow import line_objects, shown_lines
from sless.usecases.parts import LINES_FRESH_SEC, UseCaseParts

DEFAULT_TAIL = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationFilter:
    status: CallStatus | None = None
    trigger: CallTrigger | None = None
    since: datetime | None = None
    limit: int = 100
    before: str | None = None


class History:
    def __init__(self, parts: UseCaseParts, freshen_logs: Callable[[str, float], None]) -> None:
        self._freshen_logs = freshen_logs
        self._store = parts.store
        self._stats_days = parts.settings.stats_days

    def invocations(self, namespace: str, kind: Kind, name: str, wanted: InvocationFilter) -> list[Invocation]:
        return self._store.history.list_invocations(
            self._workload(namespace, kind, name).id,
            status=wanted.status,
            trigger=wanted.trigger,
            since=wanted.since,
            limit=wanted.limit,
            before=wanted.before,
        )

    def logs(self, namespace: str, kind: Kind, name: str, *, tail: int = DEFAULT_TAIL, since: datetime | None = None) -> list[LogLine]:
        workload = self._workload(namespace, kind, name)
        self._freshen_logs(workload.id, LINES_FRESH_SEC)
        return [line for _, line in self._store.history.log_tail(workload.id, tail=tail, since=since)]

    def line_objects(self, lines: Sequence[LogLine]) -> list[dict[str, str | None]]:
        return line_objects(self._store, lines)

    def shown_lines(self, lines: Sequence[LogLine], query: Mapping[str, str]) -> list[str]:
        return shown_lines(self._store, lines, query)

    def stats(self, namespace: str, kind: Kind, name: str, window: str) -> Series:
        """`window` such as 30m, 1h, 7d. Raises Invalid."""
        workload = self._workload(namespace, kind, name)
        length = window_of(window, timedelta(days=self._stats_days))
        now = clock.now()
        series = series_of(self._store.history.stats(workload.id, now - length - timedelta(minutes=1), now), length, now)
        return replace(series, cold=self._store.history.count_cold(workload.id, now - length))

    def _workload(self, namespace: str, kind: Kind, name: str) -> Workload:
        return self._store.workloads.get(namespace, kind, name)


def window_of(text: str, longest: timedelta) -> timedelta:
    length = clock.find_duration(text)
    if length is None or not timedelta(minutes=1) <= length <= longest:
        message = f"expected a length such as 30m, 1h or 7d, at most {longest.days}d, found {text[:40]!r}"
        raise Invalid(Detail(field="window", message=message))
    return length
