"""The list of a namespace: functions, services and jobs; for terminals as text."""

from flask import Response

from sless.errors import NotFound
from sless.http.console.request import Page, PageRequest, wants_page
from sless.http.console.text_list import sorted_for_text, text_of


def listing(req: PageRequest) -> Response:
    namespace = req.namespace
    if namespace != req.caller.namespace and req.usecases.tenants.find(namespace) is None:
        raise NotFound("namespace", namespace[:80])
    items = req.usecases.overview.list(namespace)
    if not wants_page():
        return Response(text_of(sorted_for_text(items), namespace, req.settings), content_type="text/plain; charset=utf-8")
    return req.page("list.html", title=req.text("list.title"), module="list", items=items)


PAGES = (Page(rule="/funcs/<ns>", view=listing),)
