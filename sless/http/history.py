"""Invocations, logs and statistics; and the related rows that `asgi` serves."""

from enum import StrEnum
from functools import partial
from typing import TypeVar

from flask import Response, request

from sless.domain.asynchronous import ATTEMPTS_HEADER, CALLBACK_HEADER, DEFAULT_ATTEMPTS, MOST_ATTEMPTS
from sless.domain.model import CallStatus, CallTrigger, Kind
from sless.errors import Detail, Invalid
from sless.http.api_request import ApiRequest
from sless.http.operation import CURSOR, FLAG, JSON, LIMIT, SINCE, KindView, Operation, Parameter, Reply, shown
from sless.http.paging import id_cursor, paged
from sless.http.serialize import invocation_json, json_response, series_json
from sless.usecases.follow import MAX_TAIL, since_of, tail_of
from sless.usecases.history import DEFAULT_TAIL, InvocationFilter

E = TypeVar("E", bound=StrEnum)

TEXT = "text/plain"
DEFAULT_PAGE = 100
ACCEPTED = shown("Fired", "accepted", "Location")
# Plain strings, because any value is valid: without Prefer they are ignored.
ASYNC = tuple(
    Parameter(name=name, text=text, place="header")
    for name, text in (
        ("Prefer", "respond-async: answer 202 as soon as the call is stored, and run it later"),
        (
            ATTEMPTS_HEADER,
            f"with respond-async: maximum attempts, 1 to {MOST_ATTEMPTS} (default {DEFAULT_ATTEMPTS}); retried are 5xx, 429 and no answer",
        ),
        (CALLBACK_HEADER, "with respond-async: http or https URL to notify (signed POST, see /callback-key) when the call ends"),
    )
)
_TRIGGERS = [str(item) for item in CallTrigger]


def invocations(kind: Kind, req: ApiRequest) -> Response:
    status = _choice(req, "status", CallStatus)
    trigger = _choice(req, "trigger", CallTrigger)
    since, before = since_of(request.args), id_cursor(req)
    return paged(
        req,
        lambda limit: req.usecases.history.invocations(
            req.namespace,
            kind,
            req.name,
            InvocationFilter(status=status, trigger=trigger, since=since, limit=limit or DEFAULT_PAGE, before=before),
        ),
        lambda item: item.id,
        invocation_json,
        default=DEFAULT_PAGE,
    )


def logs(kind: Kind, req: ApiRequest) -> Response:
    tail = tail_of(request.args, DEFAULT_TAIL)
    lines = req.usecases.history.logs(req.namespace, kind, req.name, tail=tail or 0, since=since_of(request.args))
    if req.accepts(TEXT, JSON) == JSON:
        return json_response(req.usecases.history.line_objects(lines))
    shown = req.usecases.history.shown_lines(lines, request.args)
    return Response("".join(line + "\n" for line in shown), content_type=f"{TEXT}; charset=utf-8")


def stats(kind: Kind, req: ApiRequest) -> Response:
    window = req.query("window")
    window = "1h" if window is None else window
    return json_response(series_json(req.usecases.history.stats(req.namespace, kind, req.name, window), window))


def logs_operation(kind: Kind) -> Operation:
    title = kind.capitalize()
    follow = Parameter(name="follow", text="1: stream new lines", schema=FLAG)
    form = Parameter(name="format", text="json: each line is a JSON object", schema={"type": "string", "enum": ["text", "json"]})
    tail = Parameter(name="tail", text="number of most recent lines", schema={"type": "integer", "minimum": 0, "maximum": MAX_TAIL})
    return Operation(
        id=f"logs{title}",
        method="GET",
        path=f"/v1/namespaces/{{ns}}/{kind}s/{{name}}/logs",
        view=partial(logs, kind),
        tag=f"{kind}s",
        summary=f"Log lines of a {kind}, oldest first",
        parameters=(tail, SINCE, follow, form),
        replies={200: Reply(text="time and text of each line", content={TEXT: "", JSON: "LogLines", "text/event-stream": ""})},
    )


def operations(kind: Kind) -> tuple[Operation, ...]:
    title = kind.capitalize()
    base = f"/v1/namespaces/{{ns}}/{kind}s/{{name}}"

    def row(verb: str, path: str, view: KindView, summary: str, reply: Reply, parameters: tuple[Parameter, ...] = ()) -> Operation:
        return Operation(
            id=f"{verb}{title}",
            method="GET",
            path=base + path,
            view=partial(view, kind),
            tag=f"{kind}s",
            summary=summary,
            replies={200: reply},
            parameters=parameters,
        )

    status = Parameter(
        name="status", text="only calls with this status", schema={"type": "string", "enum": [str(item) for item in CallStatus]}
    )
    trigger = Parameter(name="trigger", text="only calls started by this trigger", schema={"type": "string", "enum": _TRIGGERS})
    window = Parameter(name="window", text="time span, such as 30m, 1h, 7d", schema={"type": "string", "pattern": "^[1-9][0-9]{0,2}[mhd]$"})
    filters = (status, trigger, SINCE, LIMIT, CURSOR)
    return (
        *(_invoke(kind, method) for method in ("GET", "POST")),
        row("invocations", "/invocations", invocations, "Calls, newest first", shown("Invocations", "the calls", "Link"), filters),
        logs_operation(kind),
        row("stats", "/stats", stats, "Counts and percentiles per time slot", shown("Stats", "the series"), (window,)),
    )


def _invoke(kind: Kind, method: str) -> Operation:
    """Served by `asgi`."""
    post = method == "POST"
    return Operation(
        id=f"invoke{kind.capitalize()}" + ("" if post else "WithoutBody"),
        method=method,
        path=f"/v1/namespaces/{{ns}}/{kind}s/{{name}}/invoke",
        view=None,
        tag=f"{kind}s",
        summary=f"Calls a {kind} like /fn, but with context.http null",
        bodies={JSON: ("Event",)} if post else {},
        body_required=False,
        parameters=ASYNC if post else (),
        replies={200: Reply(text="the handler's answer", content={"*/*": ""}), 202: ACCEPTED},
        any_status=True,
    )


def _choice(req: ApiRequest, name: str, values: type[E]) -> E | None:
    text = req.query(name)
    if text is None:
        return None
    try:
        return values(text)
    except ValueError as error:
        message = f"expected one of {', '.join(values)}, found {text[:40]!r}"
        raise Invalid(Detail(field=name, message=message)) from error
