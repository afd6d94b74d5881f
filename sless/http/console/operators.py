"""Pages for operators: all tenants with failures and queues; one tenant with its limits."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from urllib.parse import urlencode

from flask import Response, request

from sless.domain.limits import LIMITS
from sless.domain.model import Kind
from sless.domain.operators import TimePlace
from sless.http.console.request import Page, PageRequest
from sless.http.console.session import redirect_to
from sless.http.paging import place_of, place_text

TENANTS_PER_PAGE = 50
ROWS = 20
"""Failing builds, errors of loops, and revoked tokens per page."""
WARN_SHARE = 0.9
"""Share of a limit from which a tenant is near it."""


def overview(req: PageRequest) -> Response:
    """`?after=` continues the list of tenants, `?suspended=1` shows only those; `?tenant=` leads to one. `_page_of` pages the others."""
    req.caller.check_operator()
    if wanted := request.args.get("tenant", "").strip():
        return redirect_to(f"{req.base}/operator/{wanted[:80]}")
    operators, only = req.usecases.operators, request.args.get("suspended") == "1"
    found = operators.list(limit=TENANTS_PER_PAGE + 1, after=request.args.get("after") or None, suspended=True if only else None)
    reports = found[:TENANTS_PER_PAGE]
    return req.page(
        "operator.html",
        title=req.text("operator.title"),
        module="operator",
        reports=[(report, _near_of(report.counts, req.usecases.tenants.limits_in_effect(report.tenant))) for report in reports],
        more=reports[-1].tenant.namespace if len(found) > TENANTS_PER_PAGE else "",
        only_suspended=only,
        builds=_page_of(operators.failing_builds, "builds"),
        errors=_page_of(operators.reconcile_errors, "errors"),
        queues=operators.queues(),
        revoked=_page_of(req.usecases.revocations.list, "tokens"),
    )


class _Placed(Protocol):
    @property
    def place(self) -> TimePlace: ...


def _page_of(find: Callable[[int, TimePlace | None], Sequence[_Placed]], name: str) -> dict[str, Any]:
    """Items of a list, and the address of its next page, "" on the last one. `?{name}=` continues the list."""
    found = find(ROWS + 1, place_of(name, request.args.get(name)))
    rows = found[:ROWS]
    query = urlencode({name: place_text(rows[-1].place)}) if len(found) > ROWS else ""
    return {"rows": rows, "more": f"?{query}#{name}" if query else ""}


def tenant(req: PageRequest) -> Response:
    req.caller.check_operator()
    namespace = req.args["tenant"]
    report = req.usecases.operators.get(namespace)
    usage, limits = req.usecases.tenants.usage(namespace), req.usecases.tenants.limits(namespace)
    rows = [
        {"name": str(name), "used": usage.counts.get(name), "limit": limits.limits[name], "own": limits.own[name], "unit": limit.unit}
        for name, limit in LIMITS.items()
    ]
    return req.page(
        "operator_tenant.html",
        title=namespace,
        module="operator_tenant",
        report=report,
        rows=rows,
        days=list(reversed(usage.days)),
        workloads=_workloads_of(req, namespace),
        data={"tenant": namespace},
    )


def _workloads_of(req: PageRequest, namespace: str) -> list[dict[str, Any]]:
    """Workloads of the tenant, suspended ones first. A workload of a suspended tenant has the tenant's reason."""
    found = [
        {"kind": str(kind), "name": view.workload.name, "phase": str(view.phase.phase), "suspended": view.workload.suspended}
        for kind in Kind
        for view in _views_of(req, namespace, kind)
    ]
    return sorted(found, key=lambda item: item["suspended"] is None)


def _views_of(req: PageRequest, namespace: str, kind: Kind) -> Any:
    use_case = req.usecases.jobs if kind is Kind.JOB else req.usecases.workloads(kind)
    return use_case.list(namespace, limit=None, after=None)


def _near_of(counts: dict[str, int], limits: dict[str, int]) -> list[dict[str, Any]]:
    """Usage of a tenant with its limits; `full`: it is near one."""
    return [
        {"name": name, "used": used, "limit": limits.get(name), "full": name in limits and used >= limits[name] * WARN_SHARE}
        for name, used in counts.items()
    ]


PAGES = (
    Page(rule="/funcs/<ns>/operator", view=overview),
    Page(rule="/funcs/<ns>/operator/<tenant>", view=tenant),
)
