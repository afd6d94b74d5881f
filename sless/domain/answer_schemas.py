"""JSON Schema of answers. Deliberately loose, since clients must tolerate new fields and new enumeration values."""

from typing import Any

from sless.domain.limits import LimitName
from sless.domain.model import CallStatus, Kind, Phase, TriggerType, VersionState
from sless.domain.runtimes import Support

Schema = dict[str, Any]

_TIME: Schema = {"type": "string", "format": "date-time"}
_MAYBE_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}
_STRING: Schema = {"type": "string"}
_MAYBE_STRING: Schema = {"type": ["string", "null"]}
_INTEGER: Schema = {"type": "integer"}
_MAYBE_INTEGER: Schema = {"type": ["integer", "null"]}
_NUMBER: Schema = {"type": "number"}
_MAYBE_NUMBER: Schema = {"type": ["number", "null"]}
_BOOLEAN: Schema = {"type": "boolean"}
_STRINGS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_SUSPENDED: Schema = _MAYBE_STRING | {"description": "why an operator suspended it, or its namespace; null if it is not suspended"}
_TEXTS: Schema = {"type": "array", "items": _STRING}
_COUNTS: Schema = {"type": "object", "additionalProperties": {"type": "integer"}}


def one_of(values: Any, *, nullable: bool = False) -> Schema:
    names = [str(value) for value in values]
    return {"type": ["string", "null"], "enum": [*names, None]} if nullable else {"type": "string", "enum": names}


def answer(properties: dict[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    return {"type": "object", "properties": properties, "required": [name for name in properties if name not in optional]}


def _array(component: str) -> Schema:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{component}"}}


WORKLOAD_FIELDS: dict[str, Schema] = {
    "kind": one_of((Kind.FUNCTION, Kind.SERVICE)),
    "namespace": _STRING,
    "phase": one_of(Phase),
    "suspended": _SUSPENDED,
    "status": _STRING | {"description": "same as phase"},
    "message": _STRING,
    "ready_instances": _INTEGER | {"description": "instances that take calls now"},
    "active_version": _MAYBE_INTEGER,
    "latest_version": _MAYBE_INTEGER,
    "latest_state": one_of(VersionState, nullable=True),
    "code_sha256": _MAYBE_STRING,
    "code_hash": _MAYBE_STRING | {"description": "value that the client sent with the upload of the active version"},
    "image_ref": _MAYBE_STRING,
    "url": _MAYBE_STRING | {"description": "null while it is not reachable over HTTP"},
    "created_at": _TIME,
    "updated_at": _TIME,
    "last_built_at": _MAYBE_TIME,
}
WORKLOAD_STATUS = (*WORKLOAD_FIELDS, "invoke_url")
_SPEC: dict[str, Schema] = {
    "name": _STRING,
    "runtime": _STRING,
    "entrypoint": _STRING,
    "memory_mb": _INTEGER,
    "timeout_sec": _INTEGER,
    "env_vars": _STRINGS,
    "concurrency": _INTEGER,
    "min_instances": _INTEGER,
    "max_instances": _INTEGER,
    "idle_seconds": _INTEGER,
    "event_format": _STRING,
    "description": _STRING,
    "display_name": _STRING,
}
_JOB: dict[str, Schema] = {
    "name": _STRING,
    "kind": one_of((Kind.JOB,)),
    "namespace": _STRING,
    "run_id": _INTEGER,
    "event_json": _STRING,
    "function_ref": _MAYBE_STRING,
    "runtime": _MAYBE_STRING,
    "entrypoint": _MAYBE_STRING,
    "memory_mb": _MAYBE_INTEGER,
    "timeout_sec": _MAYBE_INTEGER,
    "env_vars": _STRINGS,
    "description": _STRING,
    "display_name": _STRING,
    "suspended": _SUSPENDED,
    "phase": one_of(Phase),
    "status": _STRING,
    "message": _STRING | {"description": "the handler's result as JSON text, or the error and the last log lines"},
    "result": _MAYBE_STRING,
    "run_name": _MAYBE_STRING,
    "start_time": _MAYBE_TIME,
    "completion_time": _MAYBE_TIME,
    "exit_code": _MAYBE_INTEGER,
    "active_version": _MAYBE_INTEGER,
    "latest_version": _MAYBE_INTEGER,
    "latest_state": one_of(VersionState, nullable=True),
    "code_sha256": _MAYBE_STRING,
    "code_hash": _MAYBE_STRING,
    "image_ref": _MAYBE_STRING,
    "created_at": _TIME,
    "updated_at": _TIME,
}
JOB_STATUS = tuple(_JOB)
_TRIGGER: dict[str, Schema] = {
    "name": _STRING,
    "namespace": _STRING,
    "type": one_of(TriggerType),
    "function_ref": _STRING,
    "function": _STRING,
    "enabled": _BOOLEAN,
    "active": _BOOLEAN
    | {"description": "enabled and able to work: its target has a ready version, its queue is consumed; else `message` is the reason"},
    "url": _MAYBE_STRING,
    "message": _STRING,
    "last_schedule_time": _MAYBE_TIME,
    "next_schedule_time": _MAYBE_TIME,
    "last_status": _MAYBE_STRING,
    "created_at": _TIME,
    "updated_at": _TIME,
}
TRIGGER_STATUS = (*_TRIGGER, "api_key", "has_key", "has_amqp_url")
_VERSION: dict[str, Schema] = {
    "version": _INTEGER,
    "number": _INTEGER | {"description": "same as version"},
    "state": one_of(VersionState),
    "message": _STRING,
    "warnings": _TEXTS | {"description": "results of the code checks"},
    "active": _BOOLEAN,
    "sha256": _STRING,
    "code_hash": _MAYBE_STRING,
    "runtime": _STRING,
    "entrypoint": _STRING,
    "image_ref": _MAYBE_STRING,
    "size_bytes": _INTEGER,
    "created_at": _TIME,
    "created_by": _MAYBE_STRING | {"description": "subject of the token that made it; null if unknown"},
    "started_at": _MAYBE_TIME,
    "ended_at": _MAYBE_TIME,
}
_INVOCATION: dict[str, Schema] = {
    "id": _STRING,
    "request_id": _STRING,
    "kind": one_of(Kind),
    "name": _STRING,
    "version": _MAYBE_INTEGER,
    "trigger": _STRING,
    "method": _STRING,
    "path": _STRING,
    "status": one_of(CallStatus),
    "http_status": _MAYBE_INTEGER,
    "duration_ms": _MAYBE_NUMBER,
    "cold": _BOOLEAN,
    "attempts": _INTEGER,
    "error": _MAYBE_STRING,
    "request_bytes": _INTEGER,
    "response_bytes": _INTEGER,
    "started_at": _TIME,
    "finished_at": _MAYBE_TIME,
}
_ATTEMPT = answer(
    {
        "number": _INTEGER,
        "version": _MAYBE_INTEGER,
        "status": one_of(CallStatus),
        "http_status": _MAYBE_INTEGER,
        "error": _MAYBE_STRING,
        "started_at": _TIME,
        "finished_at": _MAYBE_TIME,
    }
)
_CALLBACK = answer(
    {
        "url": _STRING,
        "status": {"type": "string", "description": "waiting, pending, delivered or failed"},
        "attempts": _INTEGER,
        "http_status": _MAYBE_INTEGER,
        "error": _MAYBE_STRING,
        "next_attempt_at": _MAYBE_TIME,
        "finished_at": _MAYBE_TIME,
    }
) | {"type": ["object", "null"]}
_SLOT = answer(
    {
        "time": _TIME,
        "calls": _INTEGER,
        "errors": _INTEGER,
        "p50_ms": _MAYBE_NUMBER,
        "p95_ms": _MAYBE_NUMBER,
        "p99_ms": _MAYBE_NUMBER,
    }
)
_DAY = answer(
    {
        "day": {"type": "string", "format": "date"},
        "invocations": _INTEGER,
        "errors": _INTEGER,
        "gb_seconds": _NUMBER,
        "instance_gb_seconds": _NUMBER,
    }
)

ANSWERS: dict[str, Schema] = {
    "Error": answer(
        {
            "error": _STRING | {"description": "one sentence for people"},
            "code": _STRING | {"description": "stable slug for programs"},
            "details": {"type": "array", "items": answer({"field": _STRING, "message": _STRING})},
            "request_id": _STRING,
        }
    ),
    "Whoami": answer({"sub": _STRING, "namespace": _STRING, "operator": _BOOLEAN, "auth_mode": _STRING, "function_url": _STRING}),
    "Runtime": answer(
        {
            "name": _STRING,
            "language": _STRING,
            "default_entrypoint": _STRING,
            "end_of_life": {"type": "string", "format": "date"},
            "deprecated": _BOOLEAN | {"description": "its end of life is near or over"},
            "support": one_of(Support),
        }
    ),
    "Runtimes": _array("Runtime"),
    "Namespace": answer({"namespace": _STRING, "limits": _COUNTS, "created_at": _TIME}),
    "Namespaces": _array("Namespace"),
    "TenantLimitsShown": answer(
        {"namespace": _STRING}
        | {str(name): _MAYBE_INTEGER for name in LimitName}
        | {"limits": _COUNTS | {"description": "the limits in effect: those set for the tenant, else the defaults"}}
    ),
    "Deleting": answer({"name": _STRING, "phase": _STRING, "message": _STRING}),
    "Usage": answer({"namespace": _STRING, "counts": _COUNTS, "limits": _COUNTS, "days": {"type": "array", "items": _DAY}}),
    "Function": answer(_SPEC | WORKLOAD_FIELDS),
    "Functions": _array("Function"),
    "Service": answer(_SPEC | {"replicas": _MAYBE_INTEGER} | WORKLOAD_FIELDS | {"invoke_url": _MAYBE_STRING}),
    "Services": _array("Service"),
    "Job": answer(_JOB),
    "Jobs": _array("Job"),
    "Trigger": answer(_TRIGGER),
    "TriggerWithKey": answer(_TRIGGER | {"api_key": _STRING | {"description": "shown only once"}}, optional=("api_key",)),
    "Triggers": _array("Trigger"),
    "Upload": answer({"version": _INTEGER, "sha256": _STRING, "phase": _STRING, "message": _STRING, "s3_key": _STRING, "warnings": _TEXTS}),
    "Source": answer({"files": {"type": "object", "additionalProperties": {"type": ["string", "object"]}}}),
    "Version": answer(_VERSION),
    "Versions": _array("Version"),
    "VersionWithLog": answer(_VERSION | {"build_log": _STRING}),
    "Invocation": answer(_INVOCATION),
    "Invocations": _array("Invocation"),
    "InvocationWithLogs": answer(
        _INVOCATION
        | {
            "result": _MAYBE_STRING,
            "max_attempts": _MAYBE_INTEGER | {"description": "attempts per (re)try; null unless the call was asynchronous"},
            "next_attempt_at": _MAYBE_TIME,
            "attempts_detail": {"type": "array", "items": _ATTEMPT},
            "callback": _CALLBACK,
            "logs": {"type": "array", "items": answer({"time": _TIME, "stream": _STRING, "text": _STRING})},
        }
    ),
    "LogLines": {
        "type": "array",
        "items": answer({"time": _TIME, "stream": _STRING, "text": _STRING, "invocation_id": _STRING, "request_id": _MAYBE_STRING}),
    },
    "Document": {"type": "object"},
    "Health": answer({"status": _STRING, "reason": _STRING, "version": _STRING}, optional=("reason", "version")),
    "CallbackKey": answer(
        {
            "key": _STRING | {"description": "its UTF-8 bytes are the HMAC-SHA256 key"},
            "created_at": _TIME,
            "previous_until": _MAYBE_TIME | {"description": "until then callbacks are also signed with the previous key"},
        }
    ),
    "Fired": answer({"id": _STRING, "request_id": _STRING, "status": one_of(CallStatus)}),
    "Stats": answer(
        {
            "window": _STRING,
            "slot_sec": _INTEGER,
            "calls": _INTEGER,
            "errors": _INTEGER,
            "p50_ms": _MAYBE_NUMBER,
            "p95_ms": _MAYBE_NUMBER,
            "p99_ms": _MAYBE_NUMBER,
            "cold": _INTEGER | {"description": "calls that waited for an instance or process to start, of those in history"},
            "slots": {"type": "array", "items": _SLOT},
        }
    ),
}
