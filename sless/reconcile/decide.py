"""Rules of the control loops: (desired state, observed state, now) → actions. Pure."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sless.domain.instance_bounds import bounds_of
from sless.domain.model import Kind, Observed, Trigger, Version, VersionState, Workload
from sless.domain.ports import Deployment, ObservedDeployment, Revision
from sless.domain.routing import is_warm, revision_of, wants_instances
from sless.domain.slots import Slots

INTERRUPTED_ATTEMPTS = 3
"""How often a build is started in total if server stops interrupt it."""


# --- revisions ---


def job_revision_of(job: Workload, target: Workload, version: Version) -> Revision:
    """The revision of a job that refers to a function: the function's, overridden by the job's environment, memory and time-out."""
    revision = revision_of(target, version)
    given = job.spec.set_fields
    return replace(
        revision,
        workload_id=job.id,
        name=job.name,
        kind=Kind.JOB,
        memory_mb=job.spec.memory_mb if "memory_mb" in given else revision.memory_mb,
        timeout_sec=job.spec.timeout_sec if "timeout_sec" in given else revision.timeout_sec,
        env={**revision.env, **job.spec.env_vars, **job.spec.secret_env},
    )


# --- instances ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    deployment: Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    workload_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Removes the row of a deleted workload of which nothing runs."""

    workload_id: str


InstanceAction = Apply | Remove | Forget


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleTarget:
    """A workload that may have instances. `warm`: it needs one because a firing is due soon."""

    workload: Workload
    revision: Revision
    warm: bool

    def deployment(self, number: int) -> Deployment:
        return Deployment(revision=self.revision, replicas=number, generation=self.workload.generation)


def scale_target_of(workload: Workload, active: Version | None, triggers: Sequence[Trigger]) -> ScaleTarget | None:
    """None for a workload that never has instances, or cannot have any before a build has ended."""
    if workload.deleted_at or active is None or active.state is not VersionState.READY:
        return None
    if workload.suspended is not None or workload.kind is Kind.JOB or not wants_instances(workload.kind, triggers):
        return None
    if bounds_of(workload.kind, workload.spec).most == 0:
        return None
    warm = workload.kind is Kind.FUNCTION and is_warm(triggers)
    return ScaleTarget(workload=workload, revision=revision_of(workload, active), warm=warm)


def is_proven(workload: Workload) -> bool:
    """Whether an instance with the active version and the current settings has ever been ready, even if it was stopped because it was
    idle."""
    observed = workload.observed
    return observed.generation == workload.generation and observed.version == workload.active_version is not None


def decide_instances(
    workloads: Mapping[str, Workload],
    desired: Mapping[str, Deployment],
    observed: Mapping[str, ObservedDeployment],
    *,
    applied: Mapping[str, int],
    busy: Iterable[str] = (),
) -> list[InstanceAction]:
    """`applied` are the numbers of instances that this server has applied since it became the leader: each workload is applied once, as its
    objects may have been edited by hand before. `busy` are ids of workloads that runs or builds still use, which are not forgotten yet.
    Observed deployments without a workload are orphans and are removed."""
    actions: list[InstanceAction] = []
    held = set(busy)
    for workload_id, workload in workloads.items():
        wanted, observation = desired.get(workload_id), observed.get(workload_id)
        if wanted is not None and (
            observation is None or observation.generation != wanted.generation or applied.get(workload_id) != wanted.replicas
        ):
            actions.append(Apply(deployment=wanted))
        elif wanted is None and observation is not None:
            actions.append(Remove(workload_id=workload_id))
        elif wanted is None and workload.deleted_at and workload_id not in held:
            actions.append(Forget(workload_id=workload_id))
    actions += [Remove(workload_id=workload_id) for workload_id in observed if workload_id not in workloads]
    return actions


def observed_of(workload: Workload, wanted: Deployment | None, observation: ObservedDeployment | None, note: str = "") -> Observed:
    """The observed columns of a workload. `note` says why it gets no further instances. Once an instance has been ready, a workload is up
    to date even without any, until a start fails; then the next one has to prove again that it works."""
    if wanted is None:
        return Observed()
    current = (
        [item for item in observation.endpoints if not item.draining and item.version == wanted.revision.version] if observation else []
    )
    message, failing = (observation.message, observation.failing) if observation else ("", False)
    if note:
        message, failing = note, failing or not current
    fresh = observation is not None and observation.generation == wanted.generation
    kept = is_proven(workload) and (wanted.replicas == 0 or bool(current))
    ready = (fresh or kept) and (bool(current) or not failing)
    return Observed(
        generation=workload.generation if ready else min(observation.generation if observation else 0, workload.generation - 1),
        version=wanted.revision.version if ready else None,
        ready_instances=len(current),
        message=message,
        failing=failing,
        wanted=workload.generation if note else observation.wanted if observation else 0,
    )


# --- builds ---


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBuild:
    version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class EndBuild:
    """Ends a build that was superseded, whose workload was deleted, or that was interrupted too often."""

    version: Version
    state: VersionState
    message: str


BuildAction = StartBuild | EndBuild


IMPORTS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTurns:
    """Limits of concurrent builds, in all and per tenant, and the tenants' last turns (namespace → number, higher is later). `importing`
    are ids of builds whose only remaining step is the trial import, for which there are separate slots."""

    at_once: int
    most_of: Callable[[str], int]
    served: Mapping[str, int] = field(default_factory=dict)
    importing: frozenset[str] = frozenset()
    imports_at_once: int = IMPORTS_AT_ONCE


def decide_builds(
    versions: Iterable[Version], workloads: Mapping[str, Workload], started: frozenset[str], turns: BuildTurns
) -> list[BuildAction]:
    """`versions` are the open ones, oldest first; `started` the ids that the builder of this process works on.

    The newest upload of a workload wins: builds of older ones end, unless they are rebuilt after a restore, without becoming active. A
    version in state building that this process does not know was interrupted when a server stopped: it starts again, at most
    INTERRUPTED_ATTEMPTS times.
    """
    open_versions = list(versions)
    newest: dict[str, int] = {}
    for version in open_versions:
        newest[version.workload_id] = max(version.number, newest.get(version.workload_id, 0))
    actions: list[BuildAction] = []
    waiting: list[Version] = []
    for version in open_versions:
        workload = workloads.get(version.workload_id)
        if workload is None or workload.deleted_at:
            actions.append(EndBuild(version=version, state=VersionState.CANCELLED, message="the workload was deleted"))
        elif version.number < newest[version.workload_id] and version.auto_activate:
            text = f"superseded by version {newest[version.workload_id]}"
            actions.append(EndBuild(version=version, state=VersionState.CANCELLED, message=text))
        elif version.id in started or workload.suspended is not None:
            continue
        elif version.attempts >= INTERRUPTED_ATTEMPTS:
            text = f"the server stopped {version.attempts} times during this build; upload again to retry"
            actions.append(EndBuild(version=version, state=VersionState.FAILED, message=text))
        else:
            waiting.append(version)
    here = [item for item in open_versions if item.id in started and item.workload_id in workloads]
    active = Counter(workloads[item.workload_id].namespace for item in here if item.id not in turns.importing)
    imports = Counter(workloads[item.workload_id].namespace for item in here if item.id in turns.importing)
    if imports.total() >= turns.imports_at_once:
        return actions
    # A tenant whose imports hang leaves half of these slots to others.
    waiting = [item for item in waiting if imports[workloads[item.workload_id].namespace] < max(1, turns.imports_at_once // 2)]
    return actions + [StartBuild(version=version) for version in _next_builds(waiting, workloads, active, turns)]


def _next_builds(waiting: list[Version], workloads: Mapping[str, Workload], active: Counter[str], turns: BuildTurns) -> Iterator[Version]:
    """Tenants take turns, one build each: the one whose last turn was longest ago comes first. Slots are shared like those of runs."""
    slots = Slots(free=turns.at_once - active.total(), taken=active)
    queues: dict[str, deque[Version]] = {}
    for version in waiting:
        queues.setdefault(workloads[version.workload_id].namespace, deque()).append(version)
    order = sorted(queues, key=lambda namespace: turns.served.get(namespace, 0))
    while queues:
        for namespace in order:
            queue = queues.get(namespace)
            if queue is None:
                continue
            if slots.take(namespace, turns.most_of(namespace)):
                yield queue.popleft()
            else:
                queue.clear()
            if not queue:
                del queues[namespace]
