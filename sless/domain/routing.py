"""Derives what the proxy needs to serve a workload's calls from desired and observed state. Pure."""

from collections.abc import Iterable, Sequence

from sless.domain.instance_bounds import bounds_of
from sless.domain.lifecycle import OPEN_VERSION_STATES
from sless.domain.model import Endpoint, Kind, Trigger, TriggerType, Version, VersionState, Workload
from sless.domain.ports import HttpPolicy, Revision, Route
from sless.domain.trigger_spec import KEY_HASH
from sless.errors import Code

_KEEPING = (TriggerType.HTTP, TriggerType.EVENT)


def keeps_instances(kind: Kind, triggers: Iterable[Trigger]) -> bool:
    """Whether calls of the workload go to instances, even if it has none at the moment: services always, functions with an enabled http or
    event trigger, jobs never. `triggers` are those that refer to the workload."""
    match kind:
        case Kind.SERVICE:
            return True
        case Kind.FUNCTION:
            return any(item.enabled and item.type in _KEEPING for item in triggers)
    return False


def wants_instances(kind: Kind, triggers: Sequence[Trigger]) -> bool:
    """Whether it keeps instances, or needs a warm one because a cron trigger fires soon."""
    return (kind is Kind.FUNCTION and is_warm(triggers)) or keeps_instances(kind, triggers)


def is_warm(triggers: Iterable[Trigger]) -> bool:
    """Whether a cron trigger that fires soon keeps an instance warm."""
    return any(item.enabled and item.warm for item in triggers)


def calls_instances(kind: Kind, triggers: Sequence[Trigger], endpoints: Iterable[Endpoint]) -> bool:
    """Whether calls go to (and wait for) instances; otherwise each is a one-off run. A warm instance is used if it is ready, but calls do
    not wait for it."""
    if keeps_instances(kind, triggers):
        return True
    return wants_instances(kind, triggers) and any(not item.draining for item in endpoints)


def revision_of(workload: Workload, version: Version) -> Revision:
    """The revision of a workload at one of its versions."""
    spec = workload.spec
    return Revision(
        workload_id=workload.id,
        namespace=workload.namespace,
        name=workload.name,
        kind=workload.kind,
        version=version.number,
        runtime=version.runtime,
        entrypoint=version.entrypoint,
        code_key=version.code_key,
        artifact=version.artifact,
        memory_mb=spec.memory_mb,
        timeout_sec=spec.timeout_sec,
        concurrency=spec.concurrency,
        event_format=spec.event_format,
        env={**spec.env_vars, **spec.secret_env},
    )


def http_trigger_of(triggers: Iterable[Trigger]) -> Trigger | None:
    """A workload has at most one http trigger."""
    return next((item for item in triggers if item.type is TriggerType.HTTP), None)


def http_policy_of(trigger: Trigger) -> HttpPolicy:
    spec = trigger.spec
    return HttpPolicy(
        enabled=trigger.enabled,
        methods=tuple(spec.get("methods") or ()),
        auth=spec.get("auth") or "none",
        key_hashes=(trigger.secrets[KEY_HASH],) if KEY_HASH in trigger.secrets else (),
        cors=spec.get("cors"),
        rate_limit=spec.get("rate_limit"),
        callbacks=bool(spec.get("callbacks")),
    )


def route_of(
    workload: Workload, *, active: Version | None, newest: Version | None, triggers: Sequence[Trigger], endpoints: Sequence[Endpoint]
) -> Route:
    """`triggers` and `endpoints` are those of the workload."""
    http = http_trigger_of(triggers)
    return Route(
        workload_id=workload.id,
        namespace=workload.namespace,
        name=workload.name,
        kind=workload.kind,
        revision=revision_of(workload, active) if active else None,
        http=http_policy_of(http) if http else None,
        wants_instances=calls_instances(workload.kind, triggers, endpoints),
        endpoints=tuple(endpoints),
        blocked=blocked_of(workload, active, newest, triggers) or _start_failure_of(workload, active, triggers, endpoints),
    )


def blocked_of(workload: Workload, active: Version | None, newest: Version | None, triggers: Sequence[Trigger]) -> tuple[Code, str] | None:
    """Why calls cannot be served now, None if they can. DISABLED comes last: it only applies to /fn, the others to `invoke` as well."""
    http, waits = http_trigger_of(triggers), keeps_instances(workload.kind, triggers)
    named = f'{workload.kind} "{workload.name}"'
    if workload.deleted_at is not None:
        return Code.NOT_FOUND, f"{named} is being deleted"
    if workload.suspended is not None:
        return Code.SUSPENDED, f"{named} is {suspension_of(workload.suspended)}"
    if active is None:
        return _without_version(named, newest)
    if active.state is not VersionState.READY and not (is_rebuilt(active) and waits):
        return _without_version(named, active)
    if bounds_of(workload.kind, workload.spec).most == 0:
        return Code.NO_INSTANCES, f"{named} is scaled to 0; set replicas to 1 or more"
    if http is not None and not http.enabled:
        return Code.DISABLED, f'{named} is disabled: its http trigger "{http.name}" is not enabled'
    return None


def is_rebuilt(active: Version) -> bool:
    """Whether the active version is being rebuilt, because a restored backup lacks its artifact. Calls wait, since it has no instances
    until it is built."""
    return active.state in OPEN_VERSION_STATES


def _start_failure_of(
    workload: Workload, active: Version | None, triggers: Sequence[Trigger], endpoints: Sequence[Endpoint]
) -> tuple[Code, str] | None:
    """Why calls need not wait for instances: none has started since the workload's last change. An instance that exits after it has
    served is replaced soon, so calls wait for the next one."""
    observed = workload.observed
    if active is None or not keeps_instances(workload.kind, triggers) or any(not item.draining for item in endpoints):
        return None
    started = observed.generation == workload.generation and observed.version == active.number
    if started or observed.wanted != workload.generation or not observed.failing or not observed.message:
        return None
    return Code.NO_INSTANCES, f'{workload.kind} "{workload.name}" has no instances: {observed.message}'


def _without_version(named: str, newest: Version | None) -> tuple[Code, str]:
    if newest is None:
        return Code.NOT_READY, f"{named} has no code yet; upload it first"
    match newest.state:
        case VersionState.QUEUED | VersionState.BUILDING:
            return Code.NOT_READY, f"{named} is being built: {building_words_of(newest)}"
        case VersionState.FAILED | VersionState.CANCELLED:
            return Code.BUILD_FAILED, f"{named} has no working version: {failure_of(newest)}"
    return Code.NOT_READY, f"{named} has no active version; version {newest.number} is ready, activate it"


def suspension_of(reason: str) -> str:
    return f"suspended by the operator: {reason}" if reason else "suspended by the operator"


def building_words_of(version: Version) -> str:
    """`version 3 is building`, followed by what the build waits for."""
    words = f"version {version.number} is {version.state}"
    return f"{words}, {version.message}" if version.message else words


def failure_of(version: Version) -> str:
    """`version 3 failed: ModuleNotFoundError: …`."""
    verb = "failed" if version.state is VersionState.FAILED else "was cancelled"
    return f"version {version.number} {verb}: {version.message}" if version.message else f"version {version.number} {verb}"
