"""The list of a namespace: functions, services and jobs, or the same as text for terminals."""

from flask import Response

from sless.errors import NotFound
from sless.http.console.request import Page, PageRequest, wants_page
from sless.http.console.text_list import sorted_for_text, text_of
from sless.http.overview import overview_json

FIRST_ROWS = 20
"""Rows of the page itself, as many as a large screen shows; the script adds the others from the stream, which it opens anyway. So the first
paint takes the same time however many there are."""


def listing(req: PageRequest) -> Response:
    namespace = req.namespace
    if namespace != req.caller.namespace and req.usecases.tenants.find(namespace) is None:
        raise NotFound("namespace", namespace[:80])
    if not wants_page():
        found = req.usecases.overview.list(namespace)
        return Response(text_of(sorted_for_text(found), namespace, req.settings), content_type="text/plain; charset=utf-8")
    found, total = req.usecases.overview.first(namespace, FIRST_ROWS)
    items = [overview_json(item, namespace, req.settings) for item in found]
    title, address = req.text("list.title"), req.settings.base_url()
    return req.page("list.html", title=title, module="list", items=items, total=total, address=address, data={"total": total})


PAGES = (Page(rule="/funcs/<ns>", view=listing),)
