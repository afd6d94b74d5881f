"""Which path goes where. Works on the raw path: what is percent-encoded stays so."""

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
_FOLLOW = re.compile(rb"(?:^|&)follow=(?:1|true)(?:&|$)")


class Place(StrEnum):
    CALL = "fn"
    INVOKE = "invoke"
    LOGS = "logs"
    BUILD = "build"
    HEALTH = "health"
    READY = "ready"
    CONTEXT = "context"
    FLASK = "api"


@dataclass(frozen=True, slots=True)
class Found:
    """`rest` is the raw sub-path of a call, "/" when there is none."""

    place: Place
    namespace: str = ""
    name: str = ""
    kind: Kind | None = None
    version: int | None = None
    rest: bytes = b"/"


_FIXED = {b"/healthz": Found(Place.HEALTH), b"/health": Found(Place.HEALTH), b"/readyz": Found(Place.READY)}
_FLASK = Found(Place.FLASK)
_CONTEXTS = b"/internal/contexts/"


def place_of(method: str, raw_path: bytes, query: bytes) -> Found:
    """Raises SlessError INVALID for dot segments under /fn."""
    if raw_path.startswith(b"/fn/"):
        return call_of(raw_path)
    if raw_path in _FIXED and method in ("GET", "HEAD"):
        return _FIXED[raw_path]
    if raw_path.startswith(_CONTEXTS) and method in ("GET", "HEAD"):
        return Found(Place.CONTEXT, name=raw_path[len(_CONTEXTS) :].decode("latin-1"))
    match = _V1.fullmatch(raw_path)
    if match is None:
        return _FLASK
    namespace, name, kind = match["namespace"].decode("latin-1"), match["name"].decode("latin-1"), Kind(match["kind"].decode())
    if match["invoke"]:
        if kind is Kind.JOB or method not in ("GET", "POST"):
            return _FLASK
        return Found(Place.INVOKE, namespace, name, kind)
    if method != "GET" or not _FOLLOW.search(query):
        return _FLASK
    if match["logs"]:
        return Found(Place.LOGS, namespace, name, kind)
    return Found(Place.BUILD, namespace, name, kind, int(match["version"]))


def call_of(raw_path: bytes) -> Found:
    """`/fn/{ns}/{name}[/…]`. Raises SlessError INVALID for a path with dot segments."""
    if has_dot_segment(raw_path):
        raise SlessError(Code.INVALID, "the path holds a segment . or .. (maybe percent-encoded); send the path it resolves to")
    namespace, _, after = raw_path[4:].partition(b"/")
    name, slash, rest = after.partition(b"/")
    return Found(Place.CALL, namespace.decode("latin-1"), name.decode("latin-1"), rest=slash + rest or b"/")


def has_dot_segment(raw_path: bytes) -> bool:
    if b"." not in raw_path and b"%2" not in raw_path:
        return False
    return any(segment in (b".", b"..") for segment in unquote_to_bytes(raw_path).split(b"/"))
