"""Pages of one function, service or job: one page per tab."""

from typing import Any

from flask import Response

from sless.domain.instances_state import instances_state_of
from sless.domain.model import Kind
from sless.domain.runtimes import RUNTIMES
from sless.http.console.request import Page, PageRequest
from sless.http.serialize import job_json, series_json, trigger_json, workload_json
from sless.usecases.parts import etag_of
from sless.usecases.views import TriggerView

TABS = ("overview", "code", "run", "versions", "calls", "logs", "charts", "triggers", "settings")
NOT_OF_JOBS = ("charts", "triggers")
OVERVIEW_WINDOW = "24h"


def overview(req: PageRequest) -> Response:
    kind, name = Kind(req.args["kind"]), req.args["name"]
    if kind is Kind.JOB:
        return workload_page(req, "overview", script="job")
    series = series_json(req.usecases.history.stats(req.namespace, kind, name, OVERVIEW_WINDOW), OVERVIEW_WINDOW)
    slots = [[slot["calls"], slot["errors"]] for slot in series["slots"]]
    own = own_triggers(req)
    shown = [trigger_json(view, req.settings) for view in own]
    view = view_of(req)
    state = instances_state_of(view.workload, view.phase, [item.trigger for item in own])
    return workload_page(
        req, "overview", series=series, slots=slots, triggers=shown, http=_http_of(shown), instances_state=state,
    )  # fmt: skip


def triggers(req: PageRequest) -> Response:
    return workload_page(req, "triggers", triggers=[trigger_json(view, req.settings) for view in own_triggers(req)])


def settings(req: PageRequest) -> Response:
    view = view_of(req)
    etag = etag_of(view.workload.id, view.workload.generation)
    return workload_page(req, "settings", runtimes=list(RUNTIMES), data={"etag": etag, "item": workload_of(req)})


def workload_page(req: PageRequest, tab: str, *, script: str = "", **values: Any) -> Response:
    """Renders `workload_{tab}.html` with the script `workload_{tab}` and the resource as returned by the REST interface."""
    item = workload_of(req)
    return req.page(
        f"workload_{tab}.html", title=item["name"], module=script or f"workload_{tab}", tab=tab, item=item, kind=item["kind"],
        tabs=tabs_of(item["kind"]), rest=f"{item['kind']}s/{item['name']}", own=f"{req.base}/{item['kind']}s/{item['name']}", **values,
    )  # fmt: skip


def tabs_of(kind: str) -> tuple[str, ...]:
    return tuple(tab for tab in TABS if kind != Kind.JOB or tab not in NOT_OF_JOBS)


def view_of(req: PageRequest) -> Any:
    """Raises NotFound."""
    kind, name = Kind(req.args["kind"]), req.args["name"]
    return req.usecases.jobs.get(req.namespace, name) if kind is Kind.JOB else req.usecases.workloads(kind).get(req.namespace, name)


def workload_of(req: PageRequest) -> dict[str, Any]:
    """The workload as returned by the REST interface. Raises NotFound."""
    shown = job_json if req.args["kind"] == Kind.JOB else workload_json
    return shown(view_of(req), req.settings)


def own_triggers(req: PageRequest) -> list[TriggerView]:
    """Triggers that call the function or service of the page."""
    found = req.usecases.triggers.list(req.namespace, limit=None, after=None)
    return [view for view in found if view.trigger.function_ref == req.args["name"]]


def _http_of(own: list[dict[str, Any]]) -> dict[str, Any] | None:
    return next((item for item in own if item["type"] == "http"), None)


_BASE = "/funcs/<ns>/<kind>s/<name>"
PAGES = (
    Page(rule=_BASE, view=overview),
    Page(rule=f"{_BASE}/triggers", view=triggers),
    Page(rule=f"{_BASE}/settings", view=settings),
)
