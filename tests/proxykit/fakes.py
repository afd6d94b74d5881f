"""Fakes of the ports that the data plane uses."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sless import clock
from sless.domain.model import Endpoint, Invocation, Kind, LogLine, Run
from sless.domain.ports import HttpPolicy, ObservedRun, Revision, Route, RouteSnapshot, RunSpec
from sless.domain.statistics import CallStats
from sless.errors import Code, SlessError

NAMESPACE = "sless-0123456789abcdef"
BLOCKED_SEC = 60
"""How long a fake that a test makes unresponsive blocks at most."""


def revision_of(name: str = "f", **changes: object) -> Revision:
    base = Revision(
        workload_id=f"w-{name}", namespace=NAMESPACE, name=name, kind=Kind.FUNCTION, version=3, runtime="python3.11",
        entrypoint="handler.handle", code_key="k", artifact="", memory_mb=128, timeout_sec=30,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def endpoint_of(address: str, endpoint_id: str = "e1", workload_id: str = "w-f", version: int = 3) -> Endpoint:
    return Endpoint(id=endpoint_id, workload_id=workload_id, version=version, address=address, draining=False, created_at=clock.now())


def route_of(name: str = "f", addresses: Sequence[str] = (), revision: Revision | None = None, **changes: object) -> Route:
    revision = revision or revision_of(name)
    endpoints = tuple(endpoint_of(address, f"{name}-e{index}", f"w-{name}") for index, address in enumerate(addresses))
    base = Route(
        workload_id=f"w-{name}", namespace=NAMESPACE, name=name, kind=revision.kind, revision=revision, http=HttpPolicy(),
        wants_instances=True, endpoints=endpoints, blocked=None,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


class FakeRoutes:
    """A RouteSource of the routes that were `set` last."""

    def __init__(self, *routes: Route) -> None:
        self._snapshot = RouteSnapshot(revision=1, routes=routes)
        self.failing = False
        self.responsive = threading.Event()
        """While it is clear, `find_snapshot` blocks."""
        self.responsive.set()

    def set(self, *routes: Route) -> None:
        self._snapshot = replace(self._snapshot, revision=self._snapshot.revision + 1, routes=routes)

    def limit(self, **limits: int) -> None:
        """Sets limits of the tenant."""
        self._snapshot = replace(self._snapshot, revision=self._snapshot.revision + 1, limits={NAMESPACE: limits})

    def find_snapshot(self, since_revision: int) -> RouteSnapshot | None:
        if self.failing:
            raise RuntimeError("the database is away")
        self.responsive.wait(BLOCKED_SEC)
        return self._snapshot if self._snapshot.revision != since_revision else None


class FakeHistory:
    """A HistorySink that keeps everything, and fails while `failing`."""

    def __init__(self) -> None:
        self.invocations: list[Invocation] = []
        self.stats: list[CallStats] = []
        self.lines: list[LogLine] = []
        self.failing = False

    def add_history(self, invocations: Sequence[Invocation], stats: Iterable[CallStats], lines: Sequence[LogLine]) -> None:
        if self.failing:
            raise RuntimeError("the database is away")
        self.invocations.extend(invocations)
        self.stats.extend(stats)
        self.lines.extend(lines)


class FakeQueue:
    def __init__(self) -> None:
        self.accepted: list[Run] = []

    def accept_all(self, runs: Sequence[Run]) -> list[SlessError | None]:
        self.accepted.extend(runs)
        return [None] * len(runs)


class FakeBackend:
    """A run ends, in another thread, with the result of `answer` for its spec; never if that is None."""

    def __init__(self) -> None:
        self.answer: Callable[[RunSpec], ObservedRun | None] = lambda spec: None
        self.started: list[RunSpec] = []
        self.removed: list[str] = []
        self.unresponsive: list[str] = []
        self.reasons: dict[str, str] = {}
        self.responsive = threading.Event()
        """While it is clear, `why_gone` and `report_unresponsive` block."""
        self.responsive.set()
        self.asked: list[str] = []

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None:
        self.started.append(run)
        observed = self.answer(run)
        if observed is not None:
            threading.Thread(target=done, args=(observed,)).start()

    def remove_run(self, run_id: str) -> None:
        self.removed.append(run_id)

    def why_gone(self, endpoint_id: str) -> str | None:
        self.asked.append(endpoint_id)
        self.responsive.wait(BLOCKED_SEC)
        return self.reasons.get(endpoint_id)

    def report_unresponsive(self, endpoint_id: str) -> None:
        self.unresponsive.append(endpoint_id)
        self.responsive.wait(BLOCKED_SEC)


class FakeCaller:
    expires_at = float("inf")

    def check(self, namespace: str) -> None:
        if namespace != NAMESPACE:
            raise SlessError(Code.FORBIDDEN, f"this token does not open {namespace}")


class FakeVerifier:
    def verify(self, authorization: str | None) -> FakeCaller:
        if authorization is None:
            raise SlessError(Code.TOKEN_MISSING, "no token was sent")
        if authorization != "Bearer good":
            raise SlessError(Code.TOKEN_MALFORMED, "the token is malformed")
        return FakeCaller()
