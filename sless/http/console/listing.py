"""The list of a namespace: functions, services and jobs, or the same as text for terminals."""

from flask import Response

from sless.errors import NotFound
from sless.http.console.request import Page, PageRequest, wants_page
from sless.http.console.text_list import sorted_for_text, text_of
from sless.http.overview import overview_json


def listing(req: PageRequest) -> Response:
    namespace = req.namespace
    if namespace != req.caller.namespace and req.usecases.tenants.find(namespace) is None:
        raise NotFound("namespace", namespace[:80])
    if not wants_page():
        found = req.usecases.overview.list(namespace)
        return Response(text_of(sorted_for_text(found), namespace, req.settings), content_type="text/plain; charset=utf-8")
    items = [overview_json(item, namespace, req.settings) for item in req.usecases.overview.list(namespace, activity=True)]
    title, address = req.text("list.title"), req.settings.base_url()
    return req.page("list.html", title=title, module="list", items=items, address=address, data={"items": items})


PAGES = (Page(rule="/funcs/<ns>", view=listing),)
