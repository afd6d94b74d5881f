"""JSON → spec of functions, services and jobs, reporting all errors at once. Triggers are in `trigger_spec`."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from sless.config import RUNTIME_NAMES
from sless.domain import schemas
from sless.domain.answer_schemas import Schema
from sless.domain.instance_bounds import InstanceLimits, counts_of
from sless.domain.model import Kind, WorkloadSpec
from sless.domain.runtimes import RUNTIMES
from sless.domain.validate import found_of, mistakes_of
from sless.errors import Code, Detail, Invalid, SlessError

RESERVED_ENV = frozenset(f"SLESS_{name}" for name in RUNTIME_NAMES)
"""Names that the runtime itself uses; users may set other `SLESS_*` names."""
_VALUE_OF_RESERVED: dict[str, Callable[[str, WorkloadSpec], str | None]] = {
    "SLESS_FUNCTION_NAME": lambda name, spec: name,
    "SLESS_ENTRYPOINT": lambda name, spec: spec.entrypoint,
    "SLESS_MEMORY_MB": lambda name, spec: str(spec.memory_mb),
    "SLESS_TIMEOUT_SEC": lambda name, spec: str(spec.timeout_sec),
    "SLESS_CONCURRENCY": lambda name, spec: str(spec.concurrency),
    "SLESS_EVENT_FORMAT": lambda name, spec: spec.event_format,
}
_ENVS = ("env_vars", "build_env", "secret_env")
_KEPT_BY_REPLACE = ("build_env", "secret_env")
"""Write-only fields: a client that reads a resource and PUTs it back cannot send them."""
_ZERO_VALUES: dict[Kind, dict[str, Any]] = {
    Kind.FUNCTION: {"memory_mb": 0, "timeout_sec": 0, "entrypoint": ""},
    Kind.SERVICE: {"memory_mb": 0, "entrypoint": ""},
    Kind.JOB: {"memory_mb": 0, "entrypoint": ""},
}
"""Values that older clients send for unset fields."""
_FIELDS: dict[Kind, dict[str, Schema]] = {Kind.FUNCTION: schemas.FUNCTION, Kind.SERVICE: schemas.SERVICE, Kind.JOB: schemas.JOB}


class Mode(StrEnum):
    CREATE = "Create"
    REPLACE = "Replace"
    MERGE = "Merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecLimits:
    env_bytes: int = 64 * 1024
    event_bytes: int = schemas.MAX_EVENT_BYTES
    instances: InstanceLimits = field(default_factory=InstanceLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A spec and the name of its resource."""

    name: str
    spec: WorkloadSpec


def parse_function(
    body: Any, existing: Named | None = None, mode: Mode = Mode.CREATE, *, kind: Kind = Kind.FUNCTION, limits: SpecLimits | None = None
) -> Named:
    """Parses a function, service or job. Raises Invalid with all errors, TOO_LARGE for an environment or event over its limit. MERGE merges
    into `existing`, whose name the body may repeat but not change."""
    details = mistakes_of(f"{kind.capitalize()}{mode}", body)
    if not isinstance(body, dict):
        raise Invalid(*details)
    details += _name_mistakes(body, existing) + _env_mistakes(body)
    zero = _ZERO_VALUES[kind]
    given: dict[str, Any] = {
        name: None if name in zero and value == zero[name] else value for name, value in body.items() if name in _FIELDS[kind]
    }
    if kind is Kind.JOB and not details:
        details += _job_mistakes(given, existing if mode is Mode.MERGE else None)
    limits, old, merge = limits or SpecLimits(), existing.spec if existing else None, mode is Mode.MERGE
    counts: dict[str, Any] = {}
    if kind is not Kind.JOB and not details:
        counts, details = counts_of(kind, given, old, merge=merge, limits=limits.instances)
    if details:
        raise Invalid(*details)
    spec = replace(_spec_of(kind, given, old, mode), **counts)
    if kind is Kind.JOB:
        spec = _job_spec_of(spec, given, old if merge else None)
    name = existing.name if existing else str(body["name"])
    if details := _reserved_mistakes(body, name, spec):
        raise Invalid(*details)
    _check_sizes(spec, limits)
    return Named(name=name, spec=spec)


def text_of_event(value: Any) -> str:
    """`event_json` as text: strings stay as they are, other values are encoded as JSON."""
    if value is None:
        return "{}"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def run_event_of(text: str) -> str:
    """`event_json` as the event of a run, always valid JSON: other text becomes {"body": text}, an empty one {}."""
    if not text.strip():
        return "{}"
    try:
        json.loads(text)
    except ValueError:
        return json.dumps({"body": text}, ensure_ascii=False)
    return text


def default_entrypoint_of(runtime: str | None) -> str | None:
    return RUNTIMES[runtime].default_entrypoint if runtime else None


def default_concurrency_of(event_format: str) -> int:
    """AWS Lambda runs one call at a time in an instance, and handlers written for it rely on that."""
    return 50 if event_format == "sless" else 1


def check_event_size(field: str, text: str, limit: int = schemas.MAX_EVENT_BYTES) -> None:
    if (size := _size_of(field, text)) > limit:
        raise _too_large(field, size, limit)


def _size_of(field: str, text: str) -> int:
    """Bytes of UTF-8. Raises Invalid."""
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        message = f"expected Unicode text, found half a surrogate pair at character {error.start + 1}"
        raise Invalid(Detail(field=field, message=message)) from None


def _name_mistakes(body: Mapping[str, Any], existing: Named | None) -> list[Detail]:
    name = body.get("name")
    if existing is None or name is None or name == existing.name:
        return []
    return [Detail(field="name", message=f"cannot be changed: expected {found_of(existing.name)}, found {found_of(name)}")]


def _env_mistakes(body: Mapping[str, Any]) -> list[Detail]:
    return [
        Detail(field=f"{field}.{name}", message="is reserved; the runtime sets it")
        for field, name, _ in _reserved_of(body)
        if name not in _VALUE_OF_RESERVED
    ]


def _reserved_mistakes(body: Mapping[str, Any], name: str, spec: WorkloadSpec) -> list[Detail]:
    """Older clients send some of the runtime's variables; they are accepted with the values that the runtime sets anyway."""
    found = [(f"{field}.{key}", value, _VALUE_OF_RESERVED[key](name, spec)) for field, key, value in _reserved_of(body)]
    # The message leaves out the value, which may be a secret.
    return [
        Detail(field=field, message=f"is reserved; the runtime sets it to {found_of(own)}") for field, value, own in found if value != own
    ]


def _reserved_of(body: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """(field, name, value) of the given variables that the runtime uses."""
    for field_name in _ENVS:
        given = body.get(field_name)
        if isinstance(given, dict):
            yield from ((field_name, key, value) for key, value in given.items() if key in RESERVED_ENV)


def _job_mistakes(given: Mapping[str, Any], existing: Named | None) -> list[Detail]:
    """A job has either its own code or a `function_ref`."""
    old = existing.spec if existing else None
    reference = given.get("function_ref", old.function_ref if old else None)
    runtime = given.get("runtime", old.runtime if old else None)
    if reference and runtime:
        return [Detail(field="function_ref", message="expected either function_ref or runtime, not both")]
    if not reference and not runtime:
        return [Detail(field="runtime", message="expected runtime (for own code) or function_ref (to run a function's code)")]
    if reference and given.get("entrypoint"):
        return [Detail(field="entrypoint", message="cannot be combined with function_ref, which uses the function's entrypoint")]
    return []


def _spec_of(kind: Kind, given: Mapping[str, Any], existing: WorkloadSpec | None, mode: Mode) -> WorkloadSpec:
    base = existing if existing and mode is Mode.MERGE else WorkloadSpec(runtime=None, entrypoint=None, **_defaults_of(kind))
    if existing and mode is Mode.REPLACE:
        base = replace(base, **{name: getattr(existing, name) for name in _KEPT_BY_REPLACE})
    values = {name: _value_of(kind, name, value) for name, value in given.items() if name != "name"}
    if "event_json" in values:
        values["event_json"] = text_of_event(given["event_json"])
    spec = replace(base, **values)
    followed = existing is not None and mode is Mode.MERGE and existing.entrypoint == default_entrypoint_of(existing.runtime)
    if spec.entrypoint is None or ("entrypoint" not in given and followed and spec.runtime != base.runtime):
        spec = replace(spec, entrypoint=default_entrypoint_of(spec.runtime))
    if given.get("concurrency") is None and ("concurrency" in given or base.concurrency == default_concurrency_of(base.event_format)):
        spec = replace(spec, concurrency=default_concurrency_of(spec.event_format))
    return spec


def _job_spec_of(spec: WorkloadSpec, given: Mapping[str, Any], existing: WorkloadSpec | None) -> WorkloadSpec:
    """Sets `set_fields`: which fields override those of the function."""
    if spec.function_ref is None:
        return replace(spec, set_fields=())
    names = set(existing.set_fields if existing else ())
    for name in ("memory_mb", "timeout_sec"):
        if name in given:
            names = names - {name} if given[name] is None else names | {name}
    return replace(spec, runtime=None, entrypoint=None, set_fields=tuple(sorted(names)))


def _value_of(kind: Kind, name: str, value: Any) -> Any:
    if value is None:
        if kind is Kind.SERVICE and name == "timeout_sec":
            return 0
        return _default_of(kind, name)
    return int(value) if isinstance(value, float) else value


def _defaults_of(kind: Kind) -> dict[str, Any]:
    skipped = {"name", "runtime", "entrypoint"}
    return {name: _default_of(kind, name) for name in _FIELDS[kind] if name not in skipped}


def _default_of(kind: Kind, name: str) -> Any:
    default = _FIELDS[kind][name].get("default")
    return dict(default) if isinstance(default, dict) else default


def _check_sizes(spec: WorkloadSpec, limits: SpecLimits) -> None:
    values = asdict(spec)
    for name in _ENVS:
        size = sum(len(key) + _size_of(f"{name}.{key}", value) for key, value in values[name].items())
        if size > limits.env_bytes:
            raise _too_large(name, size, limits.env_bytes)
    check_event_size("event_json", spec.event_json, limits.event_bytes)


def _too_large(field: str, size: int, limit: int) -> SlessError:
    message = f"expected at most {limit} bytes, found {size}"
    return SlessError(Code.TOO_LARGE, f"{field}: {message}", details=[Detail(field=field, message=message)])
