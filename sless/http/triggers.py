"""Triggers."""

from typing import Any

from flask import Response

from sless.domain.model import TriggerType
from sless.errors import Detail, Invalid
from sless.http.api_request import ApiRequest
from sless.http.operation import JSON, Operation, Parameter, shown
from sless.http.resources import Resource
from sless.http.serialize import json_response, trigger_json


def _filters_of(req: ApiRequest) -> dict[str, Any]:
    text = req.query("active")
    if text not in (None, "true", "false"):
        raise Invalid(Detail(field="active", message=f"expected true or false, found {text[:40]!r}"))
    return {"active": None if text is None else text == "true"}


_TRIGGERS = Resource(
    noun="trigger",
    usecases=lambda req: req.usecases.triggers,
    row_of=lambda view: view.trigger,
    json_of=trigger_json,
    bodies=tuple(f"{kind.capitalize()}Trigger" for kind in TriggerType),
    written="TriggerWithKey",
    filters=(Parameter(name="active", text="only those that can work, or cannot", schema={"type": "string", "enum": ["true", "false"]}),),
    filters_of=_filters_of,
)


def fire(req: ApiRequest) -> Response:
    run = req.usecases.triggers.fire(req.namespace, req.name, req.json(required=False), req.request_id)
    response = json_response({"id": run.id, "request_id": run.request_id, "status": str(run.status)}, 202)
    response.headers["Location"] = f"/v1/namespaces/{req.namespace}/{run.kind}s/{run.name}/invocations/{run.id}"
    return response


OPERATIONS = (
    *_TRIGGERS.operations({
        "create": "Creates a trigger; with auth key the answer contains the new key, shown only once",
        "get": "A trigger",
        "replace": "Replaces a trigger; write-only fields are kept unless given",
        "merge": 'Changes the given fields of a trigger; {"rotate_key": true} creates a new key',
        "delete": "Deletes a trigger",
    }),
    Operation(
        id="fireTrigger",
        method="POST",
        path="/v1/namespaces/{ns}/triggers/{name}/fire",
        view=fire,
        tag="triggers",
        summary="Calls the trigger's function or service once, asynchronously, even if the trigger is disabled",
        bodies={JSON: ("Event",)},
        body_required=False,
        replies={202: shown("Fired", "accepted", "Location")},
    ),
)  # fmt: skip
