"""Whether somebody else has written to an object of ours, from what the API server keeps of who owns which field (managedFields): pure.

Who changes or removes a field that we applied takes it away from our entry there; who adds one (a variable, a rule, a key) gets an entry
of his own. Metadata that others add, and what controllers write into `status`, is theirs.
"""

from typing import Any

from sless.kube.stamp import hash_of

Json = dict[str, Any]

FIELD_MANAGER = "sless"
_THEIRS = ("f:metadata", "f:status")


def mark_of(item: Json) -> str:
    """Changes as soon as somebody else changes, adds or removes something that an apply of ours is to decide."""
    mine, others = _parted(item)
    return hash_of([mine.get("fieldsV1"), [fields for entry in others if (fields := _without_metadata(entry["fieldsV1"]))]])


def find_taken_over(item: Json) -> list[Json] | None:
    """managedFields in which all that others have added is ours, so that the next apply removes it; None when there is nothing."""
    mine, others = _parted(item)
    added: Json = {}
    for entry in others:
        added = _merged(added, _without_metadata(entry["fieldsV1"]))
    if not added or not mine:
        return None
    entries = []
    for entry in item["metadata"]["managedFields"]:
        fields = entry.get("fieldsV1") or {}
        if entry is mine:
            fields = _merged(fields, added)
        elif any(entry is other for other in others):
            fields = _metadata_of(fields)
        if fields:
            entries.append({**entry, "fieldsV1": fields})
    return entries


def _parted(item: Json) -> tuple[Json, list[Json]]:
    """Our entry, {} if there is none, and those of others that are not about the status."""
    entries = [entry for entry in item["metadata"].get("managedFields") or () if entry.get("subresource") != "status"]
    mine: Json = next((entry for entry in entries if (entry.get("manager"), entry.get("operation")) == (FIELD_MANAGER, "Apply")), {})
    return mine, [entry for entry in entries if entry is not mine and entry.get("fieldsV1")]


def _without_metadata(fields: Json) -> Json:
    """Also not that of a pod template: `kubectl rollout restart` writes an annotation there."""
    kept = {name: _without_metadata(inner) for name, inner in fields.items() if name not in _THEIRS}
    return {name: inner for name, inner in kept.items() if inner or not fields[name]}


def _metadata_of(fields: Json) -> Json:
    kept = {name: inner if name in _THEIRS else _metadata_of(inner) for name, inner in fields.items()}
    return {name: inner for name, inner in kept.items() if inner}


def _merged(one: Json, other: Json) -> Json:
    return {name: _merged(one.get(name, {}), other.get(name, {})) for name in sorted(one.keys() | other.keys())}
