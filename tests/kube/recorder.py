"""Records each request as RBAC sees it and the errors in bodies; optionally enforces rules."""

import collections
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tests.kube.errors import Refused

KEPT = 20_000
_READS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`verb` as in RBAC: get, list, watch, create, update, patch, delete, deletecollection. `resource` has no group, `path` no query."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    manager: str
    path: str
    query: str
    status: int = 0
    also: str = ""
    """A second verb that the request requires: `create` for an apply."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Recorder:
    requests: "collections.deque[Request]" = field(default_factory=lambda: collections.deque(maxlen=KEPT))
    violations: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    rules: dict[str, "Rules"] = field(default_factory=dict)

    def add(self, request: Request) -> None:
        self.requests.append(request)

    def check_allowed(self, request: Request) -> None:
        """Raises Refused (403) if this user has rules and none allows the request."""
        rules = self.rules.get(request.user)
        if rules is None or rules.allow(request):
            return
        resource = request.resource + (f"/{request.subresource}" if request.subresource else "")
        where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
        why = f'User "{request.user}" cannot {request.verb} resource "{resource}" in API group "{request.group}" {where}'
        title = f"{request.resource}.{request.group}" if request.group else request.resource
        shown = f'{title} "{request.name}"' if request.name else title
        raise Refused(403, f"{shown} is forbidden: {why}", details={"name": request.name, "group": request.group, "kind": request.resource})


@dataclass(slots=True)
class Rules:
    """RBAC rules of one user: `cluster` of ClusterRoles bound everywhere, `local` of Roles by namespace. `writable`: see `Rights`."""

    cluster: list[dict[str, Any]]
    local: dict[str, list[dict[str, Any]]]
    writable: list[str] = field(default_factory=list)

    def allow(self, request: Request) -> bool:
        namespace = request.name if request.resource == "namespaces" else request.namespace
        if self.writable and request.verb not in _READS and not any(fnmatchcase(namespace, pattern) for pattern in self.writable):
            return False
        return any(_allows(rule, request) for rule in [*self.cluster, *self.local.get(request.namespace, [])])


def _allows(rule: dict[str, Any], request: Request) -> bool:
    resource = request.resource + (f"/{request.subresource}" if request.subresource else "")
    names = rule.get("resourceNames") or []
    return (
        bool({request.verb, "*"} & set(rule.get("verbs") or []))
        and bool({request.group, "*"} & set(rule.get("apiGroups") or []))
        and bool({resource, "*", f"*/{request.subresource}"} & set(rule.get("resources") or []))
        and (not names or request.name in names)
    )
