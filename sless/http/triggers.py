"""Triggers."""

from flask import Response

from sless.domain.model import TriggerType
from sless.http.call import Call
from sless.http.operation import CURSOR, IF_MATCH, JSON, LIMIT, Operation, View, shown
from sless.http.paging import name_cursor, paged
from sless.http.serialize import json_response, trigger_json, with_etag
from sless.usecases.views import TriggerView

_PATH = "/v1/namespaces/{ns}/triggers"


def create(call: Call) -> Response:
    view = call.usecases.triggers.create(call.caller, call.namespace, call.json())
    response = _response(call, view, 201)
    response.headers["Location"] = f"/v1/namespaces/{call.namespace}/triggers/{view.trigger.name}"
    return response


def list_(call: Call) -> Response:
    after = name_cursor(call)
    return paged(
        call,
        lambda limit: call.usecases.triggers.list(call.namespace, limit=limit, after=after),
        lambda view: view.trigger.name,
        lambda view: trigger_json(view, call.settings),
    )


def get(call: Call) -> Response:
    return _response(call, call.usecases.triggers.get(call.namespace, call.name))


def replace(call: Call) -> Response:
    return _response(call, call.usecases.triggers.replace(call.namespace, call.name, call.json(), call.if_match))


def merge(call: Call) -> Response:
    return _response(call, call.usecases.triggers.merge(call.namespace, call.name, call.json(), call.if_match))


def delete(call: Call) -> Response:
    return _response(call, call.usecases.triggers.delete(call.namespace, call.name, call.if_match), 202)


def fire(call: Call) -> Response:
    run = call.usecases.triggers.fire(call.namespace, call.name, call.json(required=False), call.request_id)
    response = json_response({"id": run.id, "request_id": run.request_id, "status": str(run.status)}, 202)
    response.headers["Location"] = f"/v1/namespaces/{call.namespace}/{run.kind}s/{run.name}/invocations/{run.id}"
    return response


def _response(call: Call, view: TriggerView, status: int = 200) -> Response:
    response = json_response(trigger_json(view, call.settings), status)
    return with_etag(response, view.trigger.id, view.trigger.generation)


def _row(verb: str, method: str, view: View, summary: str, status: int = 200) -> Operation:
    bodies = tuple(f"{kind.capitalize()}Trigger{verb.capitalize()}" for kind in TriggerType)
    return Operation(
        id=f"{verb}Trigger",
        method=method,
        path=_PATH if verb == "create" else _PATH + "/{name}",
        view=view,
        tag="triggers",
        summary=summary,
        bodies={JSON: bodies} if method in ("POST", "PUT", "PATCH") else {},
        parameters=(IF_MATCH,) if method in ("PUT", "PATCH", "DELETE") else (),
        replies={status: shown("TriggerWithKey" if method in ("POST", "PUT", "PATCH") else "Trigger", "the trigger", "ETag")},
    )


OPERATIONS = (
    Operation(
        id="listTriggers",
        method="GET",
        path=_PATH,
        view=list_,
        tag="triggers",
        summary="All triggers by name",
        parameters=(LIMIT, CURSOR),
        replies={200: shown("Triggers", "the triggers", "Link")},
    ),
    _row("create", "POST", create, "Makes a trigger; with auth key the answer shows the new key, this once", 201),
    _row("get", "GET", get, "One trigger"),
    _row("replace", "PUT", replace, "Replaces a trigger; write-only fields stay unless named"),
    _row("merge", "PATCH", merge, 'Changes the named fields of a trigger; {"rotate_key": true} makes a new key'),
    _row("delete", "DELETE", delete, "Deletes a trigger", 202),
    Operation(
        id="fireTrigger",
        method="POST",
        path=_PATH + "/{name}/fire",
        view=fire,
        tag="triggers",
        summary="Calls what the trigger refers to once, now, asynchronously; also while it is disabled",
        bodies={JSON: ("Event",)},
        body_required=False,
        replies={202: shown("Fired", "accepted", "Location")},
    ),
)
