"""The API server's discovery: version, health, groups and resources, schemas."""

from typing import Any

from tests.kube import openapi
from tests.kube.kinds import KINDS


def fixed_of(path: str) -> Any:
    """The response to a discovery path; None for any other path."""
    if path == "/version":
        return {"major": "1", "minor": "30", "gitVersion": "v1.30.0", "platform": "linux/amd64"}
    if path in ("/healthz", "/readyz", "/livez"):
        return "ok"
    if path.startswith(openapi.ROOT):
        return openapi.document_of(path)
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    groups = sorted({(kind.group, kind.version) for kind in KINDS if kind.group})
    if path == "/apis":
        listed = [{"name": group, "versions": [{"groupVersion": f"{group}/{version}", "version": version}]} for group, version in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    for kind in KINDS:
        if path == kind.prefix:
            served = [{"name": other.plural, "kind": other.kind, "namespaced": other.namespaced} for other in KINDS if other.prefix == path]
            return {"kind": "APIResourceList", "groupVersion": kind.api_version, "resources": served}
    return None
