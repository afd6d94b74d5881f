"""Pages of triggers: all triggers of a namespace, a single one, and a new one."""

from typing import Any
from zoneinfo import available_timezones

from flask import Response, request

from sless.domain.model import Kind, TriggerType
from sless.domain.schemas import METHODS
from sless.http.console.request import Page, PageRequest
from sless.http.serialize import trigger_json
from sless.usecases.parts import etag_of


def listing(req: PageRequest) -> Response:
    found = req.usecases.triggers.list(req.namespace, limit=None, after=None)
    return req.page(
        "triggers.html", title=req.text("triggers.title"), module="triggers", triggers=[trigger_json(view, req.settings) for view in found]
    )


def edit(req: PageRequest) -> Response:
    view = req.usecases.triggers.get(req.namespace, req.args["name"])
    item = trigger_json(view, req.settings)
    return _form(req, item, item["name"], {"etag": etag_of(view.trigger.id, view.trigger.generation), "item": item})


def create(req: PageRequest) -> Response:
    """`?function=` and `?type=` fill the form."""
    wanted = request.args.get("type", "")
    item = {
        "name": "",
        "type": wanted if wanted in list(TriggerType) else TriggerType.HTTP,
        "function_ref": request.args.get("function", "")[:40],
        "enabled": True,
    }
    return _form(req, item, req.text("trigger.new"), {"etag": None, "item": None})


def _form(req: PageRequest, item: dict[str, Any], title: str, data: dict[str, Any]) -> Response:
    workloads = [*_names(req, Kind.FUNCTION), *_names(req, Kind.SERVICE)]
    return req.page(
        "trigger.html", title=title, module="trigger", item=item, fresh=data["item"] is None, targets=sorted(workloads), methods=METHODS,
        zones=sorted(available_timezones()), types=list(TriggerType), data=data,
    )  # fmt: skip


def _names(req: PageRequest, kind: Kind) -> list[str]:
    return [view.workload.name for view in req.usecases.workloads(kind).list(req.namespace, limit=None, after=None)]


PAGES = (
    Page(rule="/funcs/<ns>/triggers", view=listing),
    Page(rule="/funcs/<ns>/new-trigger", view=create),
    Page(rule="/funcs/<ns>/triggers/<name>", view=edit),
)
