"""Rows of the route table."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask import Response

from sless.domain.model import Kind
from sless.http.api_request import ApiRequest

View = Callable[[ApiRequest], Response]
KindView = Callable[[Kind, ApiRequest], Response]
"""Shared by functions, services and jobs."""
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
    """`content` maps media types to component names (of `domain.schemas`), or to "" (text) or "binary" if they are not JSON."""

    text: str
    content: dict[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`path` uses OpenAPI syntax. `view` None: served by `asgi`. `bodies` maps media types to component names; several names are
    alternatives. `open`: no token required. `any_status`: a handler answers, with any status and body."""

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


def reading(operation_id: str, path: str, view: View, tag: str, summary: str, reply: Reply, *parameters: Parameter) -> Operation:
    """A GET that takes parameters only."""
    return Operation(
        id=operation_id, method="GET", path=path, view=view, tag=tag, summary=summary, replies={200: reply}, parameters=parameters
    )


FLAG = {"type": "string", "enum": ["0", "1", "false", "true"]}
LIMIT = Parameter(name="limit", text="maximum number of items", schema={"type": "integer", "minimum": 1, "maximum": 1000})
CURSOR = Parameter(name="cursor", text="end of the previous page, from its Link header", schema={"type": "string", "maxLength": 512})
IF_MATCH = Parameter(name="If-Match", text="only if the resource still has this ETag", place="header")
SINCE = Parameter(name="since", text="only items at or after this time", schema={"type": "string", "format": "date-time"})
