"""Detects changes of our objects by other clients, from the API server's record of field owners (managedFields). Pure.

When another client changes or removes a field that we applied, the field leaves our entry; a field that it adds (a variable, a rule, a key)
is in its own entry. Metadata that others add, and `status`, which controllers write, belong to them.
"""

from typing import Any

from sless.kube.stamp import hash_of

Json = dict[str, Any]

FIELD_MANAGER = "sless"
_THEIRS = ("f:metadata", "f:status")


def mark_of(item: Json) -> str:
    """A hash that changes when another client changes, adds or removes a field that our apply controls."""
    mine, others = _parted(item)
    return hash_of([mine.get("fieldsV1"), [fields for entry in others if (fields := _without_metadata(entry["fieldsV1"]))]])


def find_taken_over(item: Json) -> list[Json] | None:
    """managedFields that make us the owner of all fields added by others, so that the next apply removes them; None if there are none."""
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
    """Our entry ({} if there is none), and the entries of others except for `status`."""
    entries = [entry for entry in item["metadata"].get("managedFields") or () if entry.get("subresource") != "status"]
    mine: Json = next((entry for entry in entries if (entry.get("manager"), entry.get("operation")) == (FIELD_MANAGER, "Apply")), {})
    return mine, [entry for entry in entries if entry is not mine and entry.get("fieldsV1")]


def _without_metadata(fields: Json) -> Json:
    """Also drops the metadata of a pod template, where `kubectl rollout restart` sets an annotation."""
    kept = {name: _without_metadata(inner) for name, inner in fields.items() if name not in _THEIRS}
    return {name: inner for name, inner in kept.items() if inner or not fields[name]}


def _metadata_of(fields: Json) -> Json:
    kept = {name: inner if name in _THEIRS else _metadata_of(inner) for name, inner in fields.items()}
    return {name: inner for name, inner in kept.items() if inner}


def _merged(one: Json, other: Json) -> Json:
    return {name: _merged(one.get(name, {}), other.get(name, {})) for name in sorted(one.keys() | other.keys())}
