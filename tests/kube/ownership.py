"""managedFields: owners of each field, and the effect of an apply on other owners."""

import json
from typing import Any

from tests.kube import fieldsets
from tests.kube.errors import Refused
from tests.kube.kinds import kind_of
from tests.kube.schemas import resolve, schema_of
from tests.kube.writers import Object, Writer, now_text

Owners = dict[tuple[str, str, str], set[fieldsets.Path]]


def owners_of(item: Object) -> Owners:
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): fieldsets.from_fields_v1(entry["fieldsV1"])
        for entry in item["metadata"].get("managedFields") or []
    }


def _managed_fields(item: Object, owners: Owners, before: list[Object]) -> list[Object]:
    """An entry whose fields did not change keeps its time, so a write without changes leaves the object as it is."""
    known = {(entry["manager"], entry["operation"], entry.get("subresource", "")): entry for entry in before}
    entries = []
    for key, paths in sorted(owners.items(), key=lambda pair: pair[0]):
        if not paths:
            continue
        fields = fieldsets.to_fields_v1(paths)
        old = known.get(key)
        if old is not None and json.dumps(old["fieldsV1"], sort_keys=True) == json.dumps(fields, sort_keys=True):
            entries.append(old)
            continue
        entry = {
            "manager": key[0], "operation": key[1], "apiVersion": item["apiVersion"], "time": now_text(),
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        }  # fmt: skip
        entries.append({**entry, "subresource": key[2]} if key[2] else entry)
    return entries


def check_conflicts(live: Object, schema: fieldsets.Schema, wanted: dict[fieldsets.Path, Any], owners: Owners, writer: Writer) -> None:
    """Without force, 409 that names owners and fields; with force, the other managers lose those fields."""
    values = fieldsets.values_of(live, schema)
    mine = (writer.manager, "Apply", writer.subresource)
    found = []
    for key, paths in owners.items():
        if key == mine:
            continue
        differ = {
            path
            for path in paths & set(wanted)
            # Empty values cannot conflict.
            if not path[-1].startswith("k:") and wanted[path] not in ({}, []) and values.get(path) != wanted[path]
        }
        if differ and writer.force:
            paths -= differ
        found += [(key[0], path) for path in sorted(differ)]
    if found and not writer.force:
        causes = [
            {"reason": "FieldManagerConflict", "message": f'conflict with "{name}"', "field": "." + ".".join(part[2:] for part in path)}
            for name, path in found
        ]
        shown = "; ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
        raise Refused(409, f"Apply failed with {len(causes)} conflict(s): {shown}", details={"causes": causes})


def own(item: Object, wanted: Object, old: Object | None, how: tuple[Writer, bool, Owners]) -> None:
    """Writes managedFields. An apply owns the fields it sets, another write those it changes. `how`: (writer, applied, owners so far)."""
    writer, applied, owners = how
    kind = kind_of(item["kind"])
    schema = resolve(schema_of(kind.kind, kind.api_version))
    key = (writer.manager, "Apply" if applied else "Update", writer.subresource)
    if applied:
        owners[key] = fieldsets.fields_of(wanted, schema) - {("f:status",)}
    else:
        changed, gone = fieldsets.changed_fields(old or {}, wanted, schema)
        for paths in owners.values():
            paths -= changed | gone
        owners[key] = owners.get(key, set()) | changed
    existing = [] if old is None else old["metadata"].get("managedFields") or []
    item["metadata"]["managedFields"] = _managed_fields(item, owners, existing)
