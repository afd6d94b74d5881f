"""Builds: queued versions become ready or failed, `at_once` at a time."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from sless import clock, metrics
from sless.domain.limits import LimitName, limits_of
from sless.domain.model import Kind, Version, VersionState, Workload
from sless.domain.ports import Builder, BuildSpec, BuildStatus, Waker
from sless.errors import SlessError
from sless.reconcile.decide import IMPORTS_AT_ONCE, BuildTurns, EndBuild, StartBuild, decide_builds
from sless.reconcile.failures import Backoff, note_failure
from sless.store import Store

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class BuildsLoop:
    """`holder` names this server in the claims."""

    store: Store
    builder: Builder
    waker: Waker
    holder: str
    at_once: int
    limits: Mapping[str, int]
    """Default limits of tenants."""
    imports_at_once: int = IMPORTS_AT_ONCE
    """Slots for trial imports, which are short and therefore do not wait for builds."""
    backoff: Backoff = field(default_factory=Backoff)
    _started: set[str] = field(default_factory=set)
    _importing: set[str] = field(default_factory=set)
    _served: dict[str, int] = field(default_factory=dict)
    _turns: Iterator[int] = field(default_factory=lambda: count(1))

    def changed(self) -> None:
        """Called by the builder when a build has changed, from any thread."""
        self.waker.wake("builds")

    def tick(self) -> None:
        versions = self.store.versions.list_open()
        self._drop_ended({version.id for version in versions})
        for version in versions:
            if version.id in self._started:
                self._isolated(version.id, partial(self._poll, version), version.workload_id)
        if self._started or versions:
            self._decide()

    def holds(self) -> set[str]:
        """Ids of workloads with an open build."""
        return {version.workload_id for version in self.store.versions.list_open()}

    def _decide(self) -> None:
        versions = self.store.versions.list_open()
        workloads = {item.id: item for item in self.store.workloads.list_all(tuple(Kind))}
        own = self.store.tenants.set_limits_of_all()
        turns = BuildTurns(
            at_once=self.at_once,
            most_of=lambda namespace: limits_of(self.limits, own.get(namespace, {}))[LimitName.BUILDS_AT_ONCE],
            served=self._served,
            importing=frozenset(self._importing),
            imports_at_once=self.imports_at_once,
        )
        for action in decide_builds(versions, workloads, frozenset(self._started), turns):
            match action:
                case StartBuild(version=version):
                    self._served[workloads[version.workload_id].namespace] = next(self._turns)
                    self._isolated(version.id, partial(self._start, workloads[version.workload_id], version), version.workload_id)
                case EndBuild(version=version, state=state, message=message):
                    self._isolated(version.id, partial(self._end, version, state, message), version.workload_id)

    def _isolated(self, version_id: str, work: Callable[[], None], workload_id: str = "") -> None:
        """Isolates an error in one build, which is retried later and does not delay the others."""
        now = clock.now()
        if self.backoff.rests(version_id, now):
            return
        try:
            work()
            self.backoff.succeeded(version_id)
        except Exception as error:
            note_failure(self.store, "builds", error, workload_id)
            delay_sec = self.backoff.failed(version_id, now)
            _log.exception("build %s: internal error; next attempt in %.0f s", version_id, delay_sec)

    def _start(self, workload: Workload, version: Version) -> None:
        if not self.store.versions.claim(version.id, self.holder):
            return
        spec = BuildSpec(
            id=version.id,
            workload_id=workload.id,
            namespace=workload.namespace,
            name=workload.name,
            kind=workload.kind,
            version=version.number,
            runtime=version.runtime,
            entrypoint=version.entrypoint,
            code_key=version.code_key,
            build_env=version.build_env,
            env={**workload.spec.env_vars, **workload.spec.secret_env},
            memory_mb=workload.spec.memory_mb,
            rebuild=self._was_built(version),
        )
        try:
            self.builder.start(spec, self.changed)
            self._started.add(version.id)
        except (SlessError, OSError) as error:
            _log.warning("build of %s version %d cannot start: %s", workload.name, version.number, error)
            self._finish(version, BuildStatus(ready=False, message=f"the build could not start: {error}"))
        except Exception as error:
            note_failure(self.store, "builds", error, version.workload_id)
            _log.exception("build of %s version %d cannot start", workload.name, version.number)
            self._finish(version, BuildStatus(ready=False, message=f"the build could not start: {error}"))

    def _was_built(self, version: Version) -> bool:
        """Whether an older ready version has the same code, runtime and entrypoint, so that this is a `rebuild`."""
        return any(
            older.number < version.number
            and (older.code_key, older.runtime, older.entrypoint) == (version.code_key, version.runtime, version.entrypoint)
            and older.state is VersionState.READY
            for older in self.store.versions.list_of(version.workload_id)
        )

    def _poll(self, version: Version) -> None:
        status = self.builder.poll(version.id)
        if status is None:  # The builder no longer knows the build; the next tick starts it again.
            self._started.discard(version.id)
            self._importing.discard(version.id)
            return
        if status.importing:
            self._importing.add(version.id)
        if status.lines:
            self.store.versions.add_log(version.id, status.lines)
        if status.ready is not None:
            self._finish(version, status)
        elif (known := (status.message, status.artifact or version.artifact)) != (version.message, version.artifact):
            self.store.versions.note(version.id, *known)

    def _finish(self, version: Version, status: BuildStatus) -> None:
        state = VersionState.READY if status.ready else VersionState.FAILED
        self.store.versions.finish(version.id, state=state, message=status.message, artifact=status.artifact)
        metrics.builds.labels(str(state)).inc()
        self._drop(version.id)
        for topic in ("instances", "runs", "routes"):
            self.waker.wake(topic)

    def _end(self, version: Version, state: VersionState, message: str) -> None:
        self._drop(version.id)
        if state is VersionState.CANCELLED:
            self.store.versions.cancel(version.id, message)
        else:
            self._finish(version, BuildStatus(ready=False, message=message))

    def _drop(self, version_id: str) -> None:
        self.builder.cancel(version_id)
        self._started.discard(version_id)
        self._importing.discard(version_id)

    def _drop_ended(self, open_ids: set[str]) -> None:
        """Drops builds that a user cancelled in the database while the builder was working."""
        for version_id in self._started - open_ids:
            self._isolated(version_id, partial(self._drop, version_id))
