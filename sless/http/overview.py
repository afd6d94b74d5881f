"""All resources of a namespace in one list: the console's list, which `asgi` also streams."""

import json
from typing import Any

from flask import Response

from sless.clock import rfc3339_of
from sless.config import Settings
from sless.domain.model import Trigger
from sless.domain.statistics import LastCall
from sless.http.api_request import ApiRequest
from sless.http.operation import FLAG, JSON, Operation, Parameter, Reply
from sless.http.serialize import call_url, json_response
from sless.usecases import Usecases
from sless.usecases.overview import SLOT_SEC, OverviewItem

Json = dict[str, Any]


def overview(req: ApiRequest) -> Response:
    items = req.usecases.overview.list(req.namespace, activity=True)
    return json_response([overview_json(item, req.namespace, req.settings) for item in items])


def overview_json(item: OverviewItem, namespace: str, settings: Settings) -> Json:
    calls, errors = sum(slot[0] for slot in item.slots), sum(slot[1] for slot in item.slots)
    return {
        "kind": str(item.kind),
        "name": item.name,
        "display_name": item.display_name,
        "runtime": item.runtime,
        "phase": str(item.phase),
        "message": item.message,
        "active_version": item.active,
        "latest_state": str(item.latest_state) if item.latest_state else None,
        "ready_instances": item.ready_instances,
        "instances_state": str(item.instances_state) if item.instances_state else None,
        "url": call_url(settings, namespace, item.name) if item.reachable else None,
        "triggers": [_trigger_json(trigger) for trigger in item.triggers],
        "calls": calls,
        "errors": errors,
        "slot_sec": SLOT_SEC,
        "slots": [list(slot) for slot in item.slots],
        "last": _last_json(item.last),
        "created_at": rfc3339_of(item.created_at),
        "last_built_at": rfc3339_of(item.built_at) if item.built_at else None,
    }


def overview_texts(usecases: Usecases, settings: Settings, namespace: str) -> dict[str, str]:
    """The items of the list as JSON texts, by kind and name, for the stream of changes."""
    items = usecases.overview.list(namespace, activity=True)
    return {f"{item.kind}/{item.name}": json.dumps(overview_json(item, namespace, settings), ensure_ascii=False) for item in items}


def _trigger_json(trigger: Trigger) -> Json:
    shown: Json = {name: trigger.spec[name] for name in ("schedule", "timezone", "queue") if name in trigger.spec}
    return {"name": trigger.name, "type": str(trigger.type), "enabled": trigger.enabled, **shown}


def _last_json(last: LastCall | None) -> Json | None:
    return {"status": str(last.status), "http_status": last.http_status, "started_at": rfc3339_of(last.at)} if last else None


OPERATIONS = (
    Operation(
        id="overview",
        method="GET",
        path="/v1/namespaces/{ns}/overview",
        view=overview,
        tag="namespaces",
        summary="Functions, services and jobs in one list, with triggers, the calls of the last hour and the newest call",
        parameters=(Parameter(name="follow", text="1: stream the list, then what changes, as server-sent events", schema=FLAG),),
        replies={200: Reply(text="the list; a stream has events `items` and `gone`", content={JSON: "Overview", "text/event-stream": ""})},
    ),
)
