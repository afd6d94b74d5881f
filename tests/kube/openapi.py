"""The part of `/openapi/v3` that clients read first: each kind supports `fieldValidation`, so the server validates."""

from typing import Any

from tests.kube.kinds import KINDS

ROOT = "/openapi/v3"
_PARAMETER = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def document_of(path: str) -> dict[str, Any] | None:
    """The index, or the document of one group and version."""
    groups = sorted({kind.prefix for kind in KINDS})
    if path == ROOT:
        return {"paths": {prefix.removeprefix("/"): {"serverRelativeURL": f"{ROOT}{prefix}?hash=1"} for prefix in groups}}
    prefix = path.removeprefix(ROOT)
    if prefix not in groups:
        return None
    paths = {}
    for kind in KINDS:
        if kind.prefix == prefix:
            operation = {
                "operationId": f"patch{kind.kind}",
                "parameters": [_PARAMETER],
                "responses": {},
                "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            }
            where = "/namespaces/{namespace}" if kind.namespaced else ""
            paths[f"{prefix}{where}/{kind.plural}/{{name}}"] = {"patch": operation}
    return {"openapi": "3.0.0", "info": {"title": "stand-in", "version": "1"}, "paths": paths}
