"""Entries of the audit trail. Pure.

An entry shows values only of fields that cannot hold a secret; of all others (variables, events, keys, URLs) it has the name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sless.domain.model import Trigger, WorkloadSpec

MAX_TEXT_CHARS = 200
_OPEN_TEXTS = frozenset(
    {"runtime", "entrypoint", "function_ref", "event_format", "display_name", "schedule", "timezone", "overlap", "queue", "auth"}
)
_BY_KEY = frozenset({"env_vars", "build_env", "secret_env"})
_LEFT_OUT = frozenset({"set_fields"})
_NOTHING = object()

FieldChange = dict[str, Any]
"""`{"field": …}`, and `from` and `to` if the values may be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A change to record. `action` is `{kind}.{verb}`."""

    namespace: str
    kind: str
    name: str
    verb: str
    changes: tuple[FieldChange, ...] = ()

    @property
    def action(self) -> str:
        return f"{self.kind}.{self.verb}"


def installation_note(verb: str, *changes: FieldChange) -> Note:
    """A change of the installation itself, which belongs to no tenant."""
    return Note(namespace="", kind="installation", name="installation", verb=verb, changes=changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """`sub` is the subject of the token, which may differ from the claim that names the tenant."""

    id: int
    at: datetime
    namespace: str
    sub: str
    address: str
    request_id: str
    action: str
    kind: str
    name: str
    changes: tuple[FieldChange, ...]


def spec_changes(old: WorkloadSpec | None, new: WorkloadSpec) -> tuple[FieldChange, ...]:
    """Changes from `old` to `new`; from the defaults if `old` is None."""
    return tuple(_changes(asdict(old or WorkloadSpec(runtime=None, entrypoint=None)), asdict(new)))


def trigger_changes(old: Trigger | None, new: Trigger) -> tuple[FieldChange, ...]:
    return tuple(_changes(_trigger_fields(old) if old else {}, _trigger_fields(new)))


def value_change(field: str, old: Any, new: Any) -> FieldChange:
    """A change with its values. Only for fields that cannot hold a secret."""
    return {"field": field, "from": _shown(old), "to": _shown(new)}


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldChange]:
    for field in dict.fromkeys((*new, *old)):
        before, after = old.get(field), new.get(field)
        if before == after or field in _LEFT_OUT:
            continue
        if field in _BY_KEY:
            yield from _keys_changed(field, before or {}, after or {})
        elif all(_is_open(field, value) for value in (before, after)):
            yield value_change(field, before, after)
        else:
            yield {"field": field}


def _keys_changed(field: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    for key in sorted({*before, *after}):
        if before.get(key, _NOTHING) != after.get(key, _NOTHING):
            yield {"field": f"{field}.{key[:MAX_TEXT_CHARS]}"}


def _is_open(field: str, value: Any) -> bool:
    """Whether the value may be shown: numbers, booleans, and texts of fields that cannot hold a secret."""
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and field in _OPEN_TEXTS)


def _shown(value: Any) -> Any:
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) else value


def _trigger_fields(trigger: Trigger) -> dict[str, Any]:
    head = {"type": None, "function_ref": trigger.function_ref, "enabled": trigger.enabled}
    return head | trigger.spec | {f"{name} (secret)": value for name, value in trigger.secrets.items()}
