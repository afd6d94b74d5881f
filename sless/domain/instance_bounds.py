"""Minimum and maximum number of instances of a function or service: fields of the spec and their rules. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sless.domain.answer_schemas import Schema
from sless.domain.model import Kind, WorkloadSpec
from sless.enums import StrEnum
from sless.errors import Detail

MOST = 1000
"""Highest number that a request may ask for; `SLESS_MAX_INSTANCES` is usually lower."""
DEFAULT_MAX = 5
IDLE_SECONDS = 300
_BOTH = ("min_instances", "max_instances")


def _field(least: int, most: int, default: int | None, text: str) -> Schema:
    return {"type": ["integer", "null"], "minimum": least, "maximum": most, "default": default, "description": text}


_IDLE = {"idle_seconds": _field(1, 86400, IDLE_SECONDS, "seconds without a call before it scales down to min_instances")}
FUNCTION_FIELDS: dict[str, Schema] = {
    "min_instances": _field(0, MOST, 0, "instances kept running even without calls; with 0 the first call starts one"),
    "max_instances": _field(1, MOST, DEFAULT_MAX, "maximum number of instances; further calls wait"),
} | _IDLE
SERVICE_FIELDS: dict[str, Schema] = {
    "replicas": _field(0, 20, 1, "number of instances, both minimum and maximum; excludes min_instances and max_instances"),
    "min_instances": _field(0, MOST, None, "instances kept running even without calls; default: replicas"),
    "max_instances": _field(1, MOST, None, "maximum number of instances; default: replicas"),
} | _IDLE


class InstancesState(StrEnum):
    """`serving` they take calls · `full` as many as the maximum · `limited` they take calls, `message` says why there are no more · `zero`
    none; the next call starts one · `starting` · `failing` they exit · `no_version` no version is ready · `off` the maximum is 0 ·
    `disabled` the triggers that need instances are off · `runs` each call has a process of its own · `suspended`."""

    SERVING = "serving"
    FULL = "full"
    LIMITED = "limited"
    ZERO = "zero"
    STARTING = "starting"
    FAILING = "failing"
    NO_VERSION = "no_version"
    OFF = "off"
    DISABLED = "disabled"
    RUNS = "runs"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLimits:
    """The server's settings: `least` is the default minimum of functions (SLESS_MIN_INSTANCES), `most` the maximum of all workloads
    (SLESS_MAX_INSTANCES)."""

    least: int = 0
    most: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceBounds:
    least: int
    most: int


def bounds_of(kind: Kind, spec: WorkloadSpec, most: int = MOST) -> InstanceBounds:
    """The bounds of a spec, capped at `most`, the server's maximum, which may have been lowered since the spec was written."""
    if kind is Kind.SERVICE and spec.replicas is not None:
        least = highest = spec.replicas
    else:
        least, highest = spec.min_instances or 0, spec.max_instances or DEFAULT_MAX
    return InstanceBounds(least=min(least, most), most=min(highest, most))


def shown_bounds_of(kind: Kind, spec: WorkloadSpec) -> dict[str, int | None]:
    """The fields as clients read them. For a service with `replicas`, minimum and maximum equal that number."""
    bounds = bounds_of(kind, spec)
    replicas = {"replicas": spec.replicas} if kind is Kind.SERVICE else {}
    return {**replicas, "min_instances": bounds.least, "max_instances": bounds.most, "idle_seconds": spec.idle_seconds}


def counts_of(
    kind: Kind, given: Mapping[str, Any], existing: WorkloadSpec | None, *, merge: bool, limits: InstanceLimits
) -> tuple[dict[str, int | None], list[Detail]]:
    """`replicas`, `min_instances` and `max_instances` of the new spec, and the mistakes. `given` holds the request's fields, `existing` is
    the current spec; with `merge`, fields not given keep their values."""
    given = {name: int(value) if isinstance(value, float) else value for name, value in given.items() if name in ("replicas", *_BOTH)}
    if kind is Kind.FUNCTION:
        return _of_function(given, existing if merge else None, limits)
    given = _without_unchanged(given, existing) if existing and not merge else given
    return _of_service(given, existing if merge else None, limits)


def _of_function(given: Mapping[str, Any], base: WorkloadSpec | None, limits: InstanceLimits) -> tuple[dict[str, int | None], list[Detail]]:
    kept = {"min_instances": base.min_instances, "max_instances": base.max_instances} if base else {}
    wanted = {**kept, **given}
    least, most = wanted.get("min_instances"), wanted.get("max_instances")
    if least is None:
        least = limits.least if most is None else min(limits.least, most)
    if most is None:
        most = max(limits.least, DEFAULT_MAX)
    return {"min_instances": least, "max_instances": most}, [*_over(given, limits), *_crossed(least, most)]


def _of_service(given: Mapping[str, Any], base: WorkloadSpec | None, limits: InstanceLimits) -> tuple[dict[str, int | None], list[Detail]]:
    over = _over(given, limits)
    replicas, bounds = given.get("replicas"), {name: given[name] for name in _BOTH if given.get(name) is not None}
    if replicas is not None:
        return _replicas(replicas), [*over, *_conflicts(replicas, bounds)]
    scaled = base is not None and base.replicas is None and any(given.get(name, 1) is not None for name in _BOTH)
    if not bounds and (base is None or not scaled or "replicas" in given):
        return _replicas(1 if base is None or base.replicas is None or "replicas" in given else base.replicas), over
    before = bounds_of(Kind.SERVICE, base) if base else None
    kept = {"min_instances": before.least, "max_instances": before.most} if before else {}
    wanted = {**kept, **{name: given[name] for name in _BOTH if name in given}}
    least = wanted.get("min_instances")
    least = 1 if least is None else least
    most = wanted.get("max_instances")
    most = max(least, DEFAULT_MAX) if most is None else most
    return {"replicas": None, "min_instances": least, "max_instances": most}, [*over, *_crossed(least, most)]


def _replicas(number: int) -> dict[str, int | None]:
    return {"replicas": number, "min_instances": None, "max_instances": None}


def _without_unchanged(given: Mapping[str, Any], existing: WorkloadSpec) -> Mapping[str, Any]:
    """Drops fields that only repeat what the client read, since a client that changes one field and sends all back means that one."""
    shown = shown_bounds_of(Kind.SERVICE, existing)
    if given.get("replicas") is None:
        return given
    if given["replicas"] == shown["replicas"] and any(given.get(name, shown[name]) != shown[name] for name in _BOTH):
        return {name: value for name, value in given.items() if name != "replicas"}
    if all(given.get(name, shown[name]) == shown[name] for name in _BOTH):
        return {name: value for name, value in given.items() if name not in _BOTH}
    return given


def _over(given: Mapping[str, Any], limits: InstanceLimits) -> list[Detail]:
    """Accepts numbers up to the default even above the server's maximum, which then applies: Terraform and other clients send defaults."""
    names = ("replicas", *_BOTH)
    text = f"expected at most {limits.most}, the maximum of this server (SLESS_MAX_INSTANCES), found"
    return [Detail(field=name, message=f"{text} {given[name]}") for name in names if (given.get(name) or 0) > max(limits.most, DEFAULT_MAX)]


def _conflicts(replicas: int, bounds: Mapping[str, int]) -> Iterable[Detail]:
    """Accepts the same number in all three fields, so that a client may send back what it read."""
    if bounds and bounds != dict.fromkeys(_BOTH, replicas):
        names = " and ".join(bounds)
        yield Detail(field="replicas", message=f"sets both minimum and maximum: expected either replicas or {names}, found both")


def _crossed(least: int, most: int) -> Iterable[Detail]:
    if least > most:
        yield Detail(field="min_instances", message=f"expected at most max_instances, which is {most}, found {least}")
