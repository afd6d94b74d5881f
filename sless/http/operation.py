"""A row of the route table."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask import Response

from sless.domain.model import Kind
from sless.http.api_request import ApiRequest

View = Callable[[ApiRequest], Response]
KindView = Callable[[Kind, ApiRequest], Response]
"""The same for functions, services and jobs."""
JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A query parameter or request header."""

    name: str
    text: str
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})
    place: str = "query"
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """`content` maps media types to component names (of `domain.schemas`) or, for what is no JSON, to "" (text) or "binary"."""

    text: str
    content: dict[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`path` in OpenAPI's form. `view` None: served by `asgi`. `bodies` maps media types to component names; several names mean one of
    them. `open`: no token is asked for. `any_status`: a handler answers, with whatever status and body it likes."""

    id: str
    method: str
    path: str
    view: View | None
    tag: str
    summary: str
    replies: dict[int, Reply]
    bodies: dict[str, tuple[str, ...]] = field(default_factory=dict)
    body_required: bool = True
    parameters: tuple[Parameter, ...] = ()
    open: bool = False
    any_status: bool = False


def shown(component: str, text: str = "the resource", *headers: str) -> Reply:
    return Reply(text=text, content={JSON: component}, headers=headers)


FLAG = {"type": "string", "enum": ["0", "1", "false", "true"]}
LIMIT = Parameter(name="limit", text="how many at most", schema={"type": "integer", "minimum": 1, "maximum": 1000})
CURSOR = Parameter(name="cursor", text="where the page before ended, from its Link", schema={"type": "string", "maxLength": 128})
IF_MATCH = Parameter(name="If-Match", text="ETag that the resource must still have", place="header")
SINCE = Parameter(name="since", text="only from this time on", schema={"type": "string", "format": "date-time"})
