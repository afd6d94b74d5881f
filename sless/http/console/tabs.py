"""Tabs of a function, service or job about its code and its calls: code, run, versions, calls, logs, charts."""

from typing import Any
from urllib.parse import urlencode

from flask import Response, request

from sless import assets
from sless.domain.model import CallStatus, CallTrigger, Invocation, Kind
from sless.errors import NotFound
from sless.http.console.request import Page, PageRequest
from sless.http.console.workload import workload_page
from sless.http.serialize import line_json, version_json
from sless.ids import valid_request_id
from sless.usecases.history import InvocationFilter

MOST_VERSIONS = 50
CALLS_PER_PAGE = 50
WINDOWS = ("1h", "24h", "7d")


def code(req: PageRequest) -> Response:
    return workload_page(req, "code", has_editor=(assets.static_dir() / "console" / "editor" / "editor.js").is_file())


def run(req: PageRequest) -> Response:
    return workload_page(req, "run")


def logs(req: PageRequest) -> Response:
    return workload_page(req, "logs")


def charts(req: PageRequest) -> Response:
    wanted = request.args.get("window", "1h")
    return workload_page(req, "charts", window=wanted if wanted in WINDOWS else "1h", windows=WINDOWS)


def versions(req: PageRequest) -> Response:
    kind = Kind(req.args["kind"])
    found = req.usecases.versions.list(req.namespace, kind, req.args["name"], limit=MOST_VERSIONS, before=None)
    return workload_page(req, "versions", versions=[version_json(view, req.settings) for view in found])


def calls(req: PageRequest) -> Response:
    """Filters and the cursor are in the query, so a page can be bookmarked. Unknown values count as no filter."""
    kind, name = Kind(req.args["kind"]), req.args["name"]
    status, trigger, cursor = (request.args.get(name, "") for name in ("status", "trigger", "cursor"))
    wanted = InvocationFilter(
        status=CallStatus(status) if status in list(CallStatus) else None,
        trigger=CallTrigger(trigger) if trigger in list(CallTrigger) else None,
        limit=CALLS_PER_PAGE + 1,
        before=cursor if valid_request_id(cursor) else None,
    )
    found = req.usecases.history.invocations(req.namespace, kind, name, wanted)
    shown = found[:CALLS_PER_PAGE]
    older = _older(shown, status, trigger) if len(found) > CALLS_PER_PAGE else None
    chosen = {"status": status, "trigger": trigger}
    return workload_page(req, "calls", calls=shown, older=older, chosen=chosen, statuses=list(CallStatus), triggers=list(CallTrigger))


def call(req: PageRequest) -> Response:
    kind, name, wanted = Kind(req.args["kind"]), req.args["name"], req.args["id"]
    if not valid_request_id(wanted):
        raise NotFound("invocation", wanted[:80])
    view = req.usecases.invocations.get(req.namespace, kind, name, wanted)
    lines: list[dict[str, Any]] = [line_json(line) for line in view.lines]
    return workload_page(req, "call", call=view.call, run=view.run, attempts=view.attempts, lines=lines)


def _older(shown: list[Invocation], status: str, trigger: str) -> str:
    """The query of the page of older calls."""
    return urlencode({name: value for name, value in (("status", status), ("trigger", trigger), ("cursor", shown[-1].id)) if value})


_BASE = "/funcs/<ns>/<kind>s/<name>"
PAGES = (
    *(Page(rule=f"{_BASE}/{view.__name__}", view=view) for view in (code, run, versions, calls, logs, charts)),
    Page(rule=f"{_BASE}/calls/<id>", view=call),
)
