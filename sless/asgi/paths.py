"""Tells the kinds of paths apart. Works on the raw path, with its percent-encoding."""

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote_to_bytes

from sless.domain.model import Kind
from sless.errors import Code, SlessError

_V1 = re.compile(
    rb"/v1/namespaces/(?P<namespace>[^/]+)/(?P<kind>function|service|job)s/(?P<name>[^/]+)"
    rb"/(?:(?P<invoke>invoke)|(?P<logs>logs)|versions/(?P<version>[0-9]{1,9}))"
)
_OVERVIEW = re.compile(rb"/v1/namespaces/([^/]+)/overview")
_FOLLOW = re.compile(rb"(?:^|&)follow=(?:1|true)(?:&|$)")


class PathKind(StrEnum):
    CALL = "fn"
    INVOKE = "invoke"
    LOGS = "logs"
    BUILD = "build"
    OVERVIEW = "overview"
    HEALTH = "health"
    READY = "ready"
    CONTEXT = "context"
    FLASK = "api"


@dataclass(frozen=True, slots=True)
class FoundPath:
    """`rest` is the raw sub-path of a call, "/" when there is none."""

    path_kind: PathKind
    namespace: str = ""
    name: str = ""
    kind: Kind | None = None
    version: int | None = None
    rest: bytes = b"/"


_FIXED = {b"/healthz": FoundPath(PathKind.HEALTH), b"/health": FoundPath(PathKind.HEALTH), b"/readyz": FoundPath(PathKind.READY)}
_FLASK = FoundPath(PathKind.FLASK)
_CONTEXTS = b"/internal/contexts/"


def path_of(method: str, raw_path: bytes, query: bytes) -> FoundPath:
    """Raises SlessError NOT_FOUND for two leading slashes, and as `call_of` does."""
    if raw_path.startswith(b"//"):
        raise SlessError(Code.NOT_FOUND, "the path starts with two slashes; send it with one")
    if raw_path.startswith(b"/fn/"):
        return call_of(raw_path)
    if raw_path in _FIXED and method in ("GET", "HEAD"):
        return _FIXED[raw_path]
    if raw_path.startswith(_CONTEXTS) and method in ("GET", "HEAD"):
        return FoundPath(PathKind.CONTEXT, name=raw_path[len(_CONTEXTS) :].decode("latin-1"))
    match = _V1.fullmatch(raw_path)
    if match is None:
        return _overview_of(method, raw_path, query)
    namespace, name, kind = match["namespace"].decode("latin-1"), match["name"].decode("latin-1"), Kind(match["kind"].decode())
    if match["invoke"]:
        if kind is Kind.JOB or method not in ("GET", "POST"):
            return _FLASK
        return FoundPath(PathKind.INVOKE, namespace, name, kind)
    if method != "GET" or not _FOLLOW.search(query):
        return _FLASK
    if match["logs"]:
        return FoundPath(PathKind.LOGS, namespace, name, kind)
    return FoundPath(PathKind.BUILD, namespace, name, kind, int(match["version"]))


def _overview_of(method: str, raw_path: bytes, query: bytes) -> FoundPath:
    match = _OVERVIEW.fullmatch(raw_path) if method == "GET" and _FOLLOW.search(query) else None
    return FoundPath(PathKind.OVERVIEW, match[1].decode("latin-1")) if match else _FLASK


def call_of(raw_path: bytes) -> FoundPath:
    """`/fn/{ns}/{name}[/…]`. Raises SlessError INVALID for dot segments, NOT_FOUND without a namespace or a name."""
    if has_dot_segment(raw_path):
        raise SlessError(Code.INVALID, "the path has a segment . or .. (possibly percent-encoded); send the resolved path")
    namespace, _, after = raw_path[4:].partition(b"/")
    name, slash, rest = after.partition(b"/")
    if not namespace or not name:
        missing = "name of a function or service" if namespace else "namespace"
        raise SlessError(Code.NOT_FOUND, f"the path has no {missing}: expected /fn/{{namespace}}/{{name}}")
    return FoundPath(PathKind.CALL, namespace.decode("latin-1"), name.decode("latin-1"), rest=slash + rest or b"/")


def has_dot_segment(raw_path: bytes) -> bool:
    if b"." not in raw_path and b"%2" not in raw_path:
        return False
    return any(segment in (b".", b"..") for segment in unquote_to_bytes(raw_path).split(b"/"))
