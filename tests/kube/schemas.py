"""The published schemas, from kubernetes-validate's strict set, loaded once: errors of a body, and how its lists merge."""

import functools
import json
import re
from importlib import resources
from typing import Any

from jsonschema.validators import Draft202012Validator
from kubernetes_validate.utils import all_versions
from referencing import Registry, Resource

from tests.kube.kinds import CUSTOM_GROUP

OLDEST, NEWEST = "1.30", "1.37"
_PREFIX = "/api/_definitions.json#/$defs/"

Json = Any


@functools.cache
def _folder(version: str) -> Any:
    exact = [item for item in all_versions() if item.startswith(version + ".")][-1]
    return resources.files("kubernetes_validate") / "kubernetes-json-schema" / f"v{exact}-local-strict"


@functools.cache
def _definitions(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_folder(version) / "_definitions.json").read_text())
    return found


@functools.cache
def _registry(version: str) -> Any:
    return Resource.from_contents(_definitions(version)) @ Registry()


@functools.cache
def _validator(version: str, api_version: str, kind: str) -> Draft202012Validator | None:
    """None if that version has no such kind. File names are those of kubernetes_validate.validate."""
    short = "meta-v1" if kind == "DeleteOptions" else re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    path = _folder(version) / f"{kind.lower()}-{short}.json"
    if not path.is_file():
        return None
    schema = json.loads(path.read_text())
    return Draft202012Validator(schema, registry=Resource.from_contents(schema) @ _registry(version))


def mistakes_of(item: dict[str, Any], versions: tuple[str, ...] = (OLDEST, NEWEST), *, partial: bool = False) -> list[str]:
    """Errors by either schema, one sentence each. `partial`: the body is applied to an object, so required fields may be missing."""
    api_version, kind = item.get("apiVersion", ""), item.get("kind", "")
    if api_version.startswith(CUSTOM_GROUP):
        return []
    found = []
    for version in versions:
        validator = _validator(version, api_version, kind)
        if validator is None:
            found.append(f"{version}: no kind {kind} in {api_version}")
            continue
        for error in validator.iter_errors(item):
            if partial and error.validator == "required":
                continue
            path = ".".join(str(part) for part in error.absolute_path)
            found.append(f"{version}: {kind} {path or '(top)'}: {error.message[:300]}")
    return found


# --- merging of values -------------------------------------------------------------------------------------------------------------------


@functools.cache
def root_of(kind: str, api_version: str) -> str:
    """The name of a kind's definition."""
    group, _, version = api_version.rpartition("/")
    wanted = {"group": group, "kind": kind, "version": version}
    for name, schema in _definitions(NEWEST)["$defs"].items():
        if wanted in schema.get("x-kubernetes-group-version-kind", ()):
            return _PREFIX + name
    raise KeyError(f"no definition of {api_version} {kind}")


def resolve(schema: dict[str, Any] | None) -> dict[str, Any]:
    """Follows references; siblings of a reference (list type, map type) win."""
    seen: dict[str, Any] = {}
    while schema:
        seen = {**schema, **seen}
        ref = schema.get("$ref")
        schema = _definitions(NEWEST)["$defs"][ref.rpartition("/")[2]] if ref else None
    seen.pop("$ref", None)
    return seen


def schema_of(kind: str, api_version: str) -> dict[str, Any]:
    if api_version.startswith(CUSTOM_GROUP):
        return {}  # whatever it holds is merged by field
    return {"$ref": root_of(kind, api_version)}


def child_of(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """The schema of a field or of a map's value."""
    found = schema.get("properties", {}).get(name)
    if found is None:
        extra = schema.get("additionalProperties")
        found = extra if isinstance(extra, dict) else {}
    return resolve(found)


def items_of(schema: dict[str, Any]) -> dict[str, Any]:
    return resolve(schema.get("items", {}))


def is_granular_map(schema: dict[str, Any]) -> bool:
    return schema.get("x-kubernetes-map-type") != "atomic"


def list_type_of(schema: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """`map` with its keys, `set` or `atomic`."""
    kind = schema.get("x-kubernetes-list-type", "atomic")
    return kind, tuple(schema.get("x-kubernetes-list-map-keys", ())) if kind == "map" else ()


def merge_key_of(schema: dict[str, Any]) -> str | None:
    """For a strategic merge patch; None if the list is replaced."""
    if "merge" not in schema.get("x-kubernetes-patch-strategy", "").split(","):
        return None
    return schema.get("x-kubernetes-patch-merge-key", "")
