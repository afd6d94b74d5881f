"""Usage of a namespace against its limits, and per day."""

from flask import Response

from sless.http.console.request import Page, PageRequest


def usage(req: PageRequest) -> Response:
    found = req.usecases.tenants.usage(req.namespace)
    names = [*found.counts, *(name for name in found.limits if name not in found.counts)]
    rows = [{"name": name, "used": found.counts.get(name), "limit": found.limits.get(name)} for name in names]
    return req.page("usage.html", title=req.text("usage.title"), module="", rows=rows, days=list(reversed(found.days)))


PAGES = (Page(rule="/funcs/<ns>/usage", view=usage),)
