"""The one route and the history of its calls: domain.ports.RouteSource, HistorySink and AsyncQueue."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sless.domain.model import Endpoint, Invocation, Kind, LogLine, Run
from sless.domain.ports import HttpPolicy, Revision, Route, RouteSnapshot
from sless.domain.statistics import CallStats
from sless.errors import Code, SlessError

NAMESPACE = "dev"


class OneRoute:
    """One thread changes the snapshot, which is immutable, and another reads it. Calls wait until the first change."""

    def __init__(self, workload_id: str, name: str) -> None:
        route = Route(
            workload_id=workload_id, namespace=NAMESPACE, name=name, kind=Kind.FUNCTION, revision=None, http=HttpPolicy(),
            wants_instances=True, endpoints=(), blocked=None,
        )  # fmt: skip
        self._snapshot = RouteSnapshot(revision=1, routes=(route,))

    def find_snapshot(self, since_revision: int) -> RouteSnapshot | None:
        snapshot = self._snapshot
        return snapshot if snapshot.revision != since_revision else None

    def show(self, revision: Revision, endpoints: Sequence[Endpoint]) -> bool:
        """Routes calls to these instances; calls wait while there are none. Returns whether the route has changed."""
        return self._change(replace(self._route, revision=revision, endpoints=tuple(endpoints), blocked=None))

    def block(self, code: Code, sentence: str) -> bool:
        """Answers calls with this error."""
        return self._change(replace(self._route, endpoints=(), blocked=(code, sentence)))

    def serves(self) -> bool:
        return bool(self._route.endpoints)

    @property
    def _route(self) -> Route:
        return self._snapshot.routes[0]

    def _change(self, route: Route) -> bool:
        if route == self._route:
            return False
        self._snapshot = RouteSnapshot(revision=self._snapshot.revision + 1, routes=(route,))
        return True


class EndedCalls:
    """Calls that have ended but were not shown yet. Drops log lines, which the instance's pipe delivers sooner."""

    def __init__(self) -> None:
        self._ended: deque[Invocation] = deque()

    def add_history(self, invocations: Sequence[Invocation], stats: Iterable[CallStats], lines: Sequence[LogLine]) -> None:
        self._ended.extend(invocations)

    def take(self) -> list[Invocation]:
        return [self._ended.popleft() for _ in range(len(self._ended))]


class NoQueue:
    def accept_all(self, runs: Sequence[Run]) -> Sequence[SlessError | None]:
        raise SlessError(Code.NOT_IMPLEMENTED, "sless dev answers calls directly; asynchronous calls need a server (sless serve)")
