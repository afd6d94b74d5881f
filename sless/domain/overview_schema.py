"""JSON Schema of answers made for the console: the list of everything in a namespace, and schedules in words."""

from sless.domain.answer_schemas import Schema, answer, one_of
from sless.domain.instance_bounds import InstancesState
from sless.domain.model import CallStatus, Kind, Phase, VersionState

_ITEM = answer(
    {
        "kind": one_of(Kind),
        "name": {"type": "string"},
        "display_name": {"type": "string"},
        "runtime": {"type": ["string", "null"]},
        "phase": one_of(Phase),
        "message": {"type": "string"},
        "active_version": {"type": ["integer", "null"]},
        "latest_state": one_of(VersionState, nullable=True),
        "ready_instances": {"type": "integer"},
        "instances_state": one_of(InstancesState, nullable=True) | {"description": "why it has these instances; null for jobs"},
        "url": {"type": ["string", "null"]},
        "triggers": {"type": "array", "items": {"type": "object"}},
        "calls": {"type": "integer"} | {"description": "in the last hour"},
        "errors": {"type": "integer"},
        "slot_sec": {"type": "integer"},
        "slots": {"type": "array", "items": {"type": "array"}, "description": "[calls, errors] of each slot of the hour, oldest first"},
        "last": answer(
            {
                "status": one_of(CallStatus),
                "http_status": {"type": ["integer", "null"]},
                "started_at": {"type": "string", "format": "date-time"},
            }
        )
        | {"type": ["object", "null"], "description": "the newest call"},
        "created_at": {"type": "string", "format": "date-time"},
        "last_built_at": {"type": ["string", "null"], "format": "date-time"},
    }
)

_SCHEDULE = answer(
    {
        "schedule": {"type": "string"},
        "timezone": {"type": "string"},
        "words": {"type": "string", "description": "the schedule in words"},
        "next": {"type": "array", "items": {"type": "string", "format": "date-time"}},
    }
)

OVERVIEW: dict[str, Schema] = {
    "OverviewItem": _ITEM,
    "Overview": {"type": "array", "items": {"$ref": "#/components/schemas/OverviewItem"}},
    "Schedule": _SCHEDULE,
}
