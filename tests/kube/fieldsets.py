"""Fields of an object and their owners: FieldsV1 in managedFields, and server-side apply based on it.

A path is a tuple of elements as FieldsV1 writes them: `f:name`, `k:{"name":"a"}` (item of a list with keys), `v:"x"` (item of a set).
The schema decides what merges and what is atomic. The steps are those of Kubernetes' structured-merge-diff: conflicts, merge, then removal
of fields that this manager applied before and no manager owns any more.
"""

import json
from typing import Any

from tests.kube.schemas import child_of, is_granular_map, items_of, list_type_of

Path = tuple[str, ...]
Schema = dict[str, Any]
_SERVERS_OWN = (
    "apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "metadata.generation",
    "metadata.creationTimestamp", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "metadata.managedFields",
    "metadata.selfLink",
)  # fmt: skip
_IGNORED = {tuple(f"f:{part}" for part in name.split(".")) for name in _SERVERS_OWN}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def key_of(item: dict[str, Any], keys: tuple[str, ...], schema: Schema) -> str:
    """The path element of a list item; a missing key gets its schema's default."""
    values = {key: item.get(key, "TCP" if key == "protocol" else child_of(schema, key).get("default")) for key in keys}
    return "k:" + _text({key: value for key, value in values.items() if value is not None})


def fields_of(value: Any, schema: Schema) -> set[Path]:
    """The leaves that a value sets, and the items of keyed lists."""
    return set(values_of(value, schema))


def values_of(value: Any, schema: Schema) -> dict[Path, Any]:
    """The same paths with their values; list items have no value."""
    found: dict[Path, Any] = {}
    _walk(value, schema, (), found)
    return found


def _walk(value: Any, schema: Schema, path: Path, found: dict[Path, Any]) -> None:
    if path in _IGNORED:
        return
    children = children_of(value, schema)
    if children is None or (not children and path):
        found[path] = value
        return
    for element, (child, child_schema) in children.items():
        if element.startswith("k:"):
            found[(*path, element)] = None
        _walk(child, child_schema, (*path, element), found)


def children_of(value: Any, schema: Schema) -> dict[str, tuple[Any, Schema]] | None:
    """Children by path element; None for an atomic value."""
    if isinstance(value, dict) and is_granular_map(schema):
        return {f"f:{name}": (item, child_of(schema, name)) for name, item in value.items()}
    if isinstance(value, list):
        kind, keys = list_type_of(schema)
        inner = items_of(schema)
        if kind == "map":
            return {key_of(item, keys, inner): (item, inner) for item in value}
        if kind == "set":
            return {f"v:{_text(item)}": (item, {"x-kubernetes-map-type": "atomic"}) for item in value}
    return None


# --- FieldsV1 ---------------------------------------------------------------------------------------------------------------------------


def to_fields_v1(paths: set[Path]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        if path[-1].startswith("k:"):
            node["."] = {}
    return tree


def from_fields_v1(tree: dict[str, Any], path: Path = ()) -> set[Path]:
    found: set[Path] = set()
    for element, below in tree.items():
        here = path if element == "." else (*path, element)
        if element == "." or not below:
            found.add(here)
        else:
            found |= from_fields_v1(below, here)
    return found


# --- merge and removal ------------------------------------------------------------------------------------------------------------------


def merged(live: Any, applied: Any, schema: Schema) -> Any:
    """Applied values win; fields that only the live object has stay. Applied items come first, in their order, then the others."""
    if isinstance(applied, dict) and isinstance(live, dict) and is_granular_map(schema):
        both = dict(live)
        for name, value in applied.items():
            both[name] = merged(live.get(name), value, child_of(schema, name)) if name in live else value
        return both
    if isinstance(applied, list) and isinstance(live, list) and list_type_of(schema)[0] != "atomic":
        ours, theirs = children_of(applied, schema) or {}, children_of(live, schema) or {}
        inner = items_of(schema)
        joined = [merged(theirs[key][0], item, inner) if key in theirs else item for key, (item, _) in ours.items()]
        return joined + [item for key, (item, _) in theirs.items() if key not in ours]
    return applied


def without(value: Any, schema: Schema, removed: set[Path], path: Path = ()) -> Any:
    """The value without these paths and everything below them."""
    if not any(item[: len(path)] == path for item in removed):
        return value
    children = children_of(value, schema)
    if children is None:
        return value
    kept = {
        element: without(child, child_schema, removed, (*path, element))
        for element, (child, child_schema) in children.items()
        if (*path, element) not in removed
    }
    if isinstance(value, dict):
        return {element.removeprefix("f:"): child for element, child in kept.items()}
    return list(kept.values())


def with_parents(paths: set[Path]) -> set[Path]:
    """Adds the parent fields: the owner of a leaf keeps the structure around it."""
    return paths | {path[:depth] for path in paths for depth in range(1, len(path))}


def applied_over(live: Any, applied: Any, schema: Schema, *, before: set[Path], others: set[Path]) -> Any:
    """`before`: what this manager applied last time; `others`: what the other managers own."""
    now = fields_of(applied, schema)
    # Every object keeps its metadata, even when no manager owns it.
    removed = with_parents(before) - with_parents(now | others) - {("f:metadata",)}
    return without(merged(live, applied, schema), schema, removed)


def changed_fields(old: Any, new: Any, schema: Schema) -> tuple[set[Path], set[Path]]:
    """(set or changed, removed) between two states of an object."""
    was, now = values_of(old, schema), values_of(new, schema)
    changed = {path for path, value in now.items() if path not in was or was[path] != value}
    return changed, set(was) - set(now)
