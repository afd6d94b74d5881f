"""Pages of one function, service or job: a tab each."""

from typing import Any

from flask import Response

from sless.domain.model import Kind
from sless.http.console.request import Page, PageRequest
from sless.http.serialize import job_json, workload_json

TABS = ("overview", "code", "run", "versions", "calls", "logs", "charts")
NOT_OF_JOBS = ("charts",)


def overview(req: PageRequest) -> Response:
    return workload_page(req, "overview")


def workload_page(req: PageRequest, tab: str, **values: Any) -> Response:
    """The page `workload_{tab}.html` with the resource as the REST interface shows it, and the script `workload_{tab}`."""
    item = workload_of(req)
    return req.page(
        f"workload_{tab}.html", title=item["name"], module=f"workload_{tab}", tab=tab, item=item, kind=item["kind"],
        tabs=tabs_of(item["kind"]), rest=f"{item['kind']}s/{item['name']}", own=f"{req.base}/{item['kind']}s/{item['name']}", **values,
    )  # fmt: skip


def tabs_of(kind: str) -> tuple[str, ...]:
    return tuple(tab for tab in TABS if kind != Kind.JOB or tab not in NOT_OF_JOBS)


def workload_of(req: PageRequest) -> dict[str, Any]:
    """As the REST interface shows it. Raises NotFound."""
    kind = Kind(req.args["kind"])
    if kind is Kind.JOB:
        return job_json(req.usecases.jobs.get(req.namespace, req.args["name"]), req.settings)
    return workload_json(req.usecases.workloads(kind).get(req.namespace, req.args["name"]), req.settings)


PAGES = (Page(rule="/funcs/<ns>/<kind>s/<name>", view=overview),)
