"""JSON Schema of the requests and answers for operators: audit, tenants, suspension, tokens."""

from typing import Any

from sless.domain.answer_schemas import answer
from sless.domain.metering import COLUMNS

Schema = dict[str, Any]

_STRING: Schema = {"type": "string"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_SUSPENDED: Schema = {"type": ["object", "null"], "properties": {"reason": _STRING, "at": _TIME}}
_MAYBE_STRING: Schema = {"type": ["string", "null"]}
_INTEGER: Schema = {"type": "integer"}
_COUNTS: Schema = {"type": "object", "additionalProperties": _INTEGER}
_REASON: Schema = {"type": "string", "maxLength": 500}

OPERATOR_REQUESTS: dict[str, Schema] = {
    "Suspend": {
        "type": "object",
        "properties": {"reason": _REASON | {"description": "shown to the tenant"}},
        "additionalProperties": False,
    },
    "NotificationsReplace": {
        "type": "object",
        "properties": {"notify_url": {"type": ["string", "null"], "maxLength": 2048}, "namespace": {"type": "string"}},
        "required": ["notify_url"],
        "additionalProperties": False,
    },
    "ImportedRun": {
        "type": "object",
        "properties": {"run_id": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}, "result": {"type": ["string", "null"]}},
        "required": ["run_id"],
        "additionalProperties": False,
    },
    "AllowCode": {"type": "object", "properties": {"reason": _REASON}, "additionalProperties": False},
    "TokenRevocation": {
        "type": "object",
        "properties": {
            "token": {"type": "string", "maxLength": 16384, "description": "the token itself, if it is known"},
            "jti": {"type": "string", "minLength": 1, "maxLength": 256, "description": "the claim jti of the token"},
            "reason": _REASON,
        },
        "additionalProperties": False,
    },
}

OPERATOR_ANSWERS: dict[str, Schema] = {
    "AuditEntry": answer(
        {
            "id": {"type": "integer"},
            "time": _TIME,
            "namespace": _STRING | {"description": "empty for changes of the installation itself"},
            "sub": _STRING | {"description": "subject of the token that made the change"},
            "address": _STRING | {"description": "the client's address"},
            "request_id": _STRING,
            "action": _STRING | {"description": "kind and verb, such as function.update"},
            "kind": _STRING,
            "name": _STRING,
            "changes": {
                "type": "array",
                "items": answer({"field": _STRING, "from": {}, "to": {}}, optional=("from", "to")),
                "description": "changed fields; values only where they cannot hold a secret",
            },
        }
    ),
    "AuditEntries": {"type": "array", "items": {"$ref": "#/components/schemas/AuditEntry"}},
    "Tenant": answer(
        {
            "namespace": _STRING,
            "sub_sha256": _STRING | {"description": "hash of the subject, or of the claim that names the tenant; empty if unknown"},
            "created_at": _TIME,
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
            "usage": answer(
                {
                    "days": {"type": "integer"},
                    "invocations": {"type": "integer"},
                    "errors": {"type": "integer"},
                    "gb_seconds": {"type": "number"},
                }
            ),
            "suspended": _SUSPENDED,
        }
    ),
    "Tenants": {"type": "array", "items": {"$ref": "#/components/schemas/Tenant"}},
    "FailingBuilds": {
        "type": "array",
        "items": answer(
            {
                "namespace": _STRING,
                "kind": _STRING,
                "name": _STRING,
                "version": _INTEGER,
                "active_version": {"type": ["integer", "null"], "description": "the version that still serves"},
                "message": _STRING,
                "failed_at": _TIME,
            }
        ),
    },
    "ReconcileErrors": {
        "type": "array",
        "items": answer(
            {
                "loop": _STRING,
                "namespace": _MAYBE_STRING | {"description": "of the workload, if the error is about one that still exists"},
                "kind": _MAYBE_STRING,
                "name": _MAYBE_STRING,
                "message": _STRING | {"description": "the newest"},
                "count": _INTEGER,
                "first_at": _TIME,
                "last_at": _TIME,
            }
        ),
    },
    "Queues": {
        "type": "array",
        "items": answer(
            {
                "queue": _STRING | {"description": "calls (that wait for an instance or a run slot), builds, runs, callbacks or notices"},
                "waiting": _INTEGER | {"description": "of all replicas of the server; calls: only of the replica that answers"},
                "due_at": {"type": ["string", "null"], "format": "date-time", "description": "when the first entry was to start"},
            }
        ),
    },
    "SuspendedWorkload": answer({"namespace": _STRING, "kind": _STRING, "name": _STRING, "suspended": {"type": ["string", "null"]}}),
    "Notifications": answer({"namespace": _STRING, "notify_url": {"type": ["string", "null"]}}),
    "UsageRow": answer({name: _STRING if name in ("namespace", "day") else {"type": "number"} for name in COLUMNS}),
    "UsageRows": {"type": "array", "items": {"$ref": "#/components/schemas/UsageRow"}},
    "AllowedCode": answer({"sha256": _STRING, "reason": _STRING}),
    "AllowedCodes": {"type": "array", "items": {"$ref": "#/components/schemas/AllowedCode"}},
    "RevokedToken": answer({"jti": _STRING, "sub": _STRING, "reason": _STRING, "revoked_at": _TIME, "expires_at": _TIME}),
    "RevokedTokens": {"type": "array", "items": {"$ref": "#/components/schemas/RevokedToken"}},
}
