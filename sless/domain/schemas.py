"""JSON Schema (2020-12) of the REST interface, used to validate requests and for the OpenAPI document.

Requests are defined here, answers in `answer_schemas`. In a request, read-only fields are ignored (clients send back what they read),
`null` restores the default, and unknown fields are errors. `x-expected` is the wording for a pattern in error messages.
"""

from typing import Any

from sless.domain import limits
from sless.domain.answer_schemas import ANSWERS, JOB_STATUS, TRIGGER_STATUS, WORKLOAD_STATUS, Schema
from sless.domain.instance_bounds import FUNCTION_FIELDS, SERVICE_FIELDS
from sless.domain.model import TriggerType
from sless.domain.operator_schemas import OPERATOR_ANSWERS, OPERATOR_REQUESTS
from sless.domain.overview_schema import OVERVIEW
from sless.domain.runtimes import RUNTIMES

NAME_PATTERN = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
RESERVED_NAMES = ("admin", "api")
ENTRYPOINT_PATTERN = r"^[A-Za-z0-9_@$-]+([./][A-Za-z0-9_@$-]+)*\.[A-Za-z_$][A-Za-z0-9_$]*$"
ENV_NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MAX_EVENT_BYTES = 256 * 1024
MAX_ENV_NAMES = 1000

NAME: Schema = {
    "type": "string",
    "pattern": NAME_PATTERN,
    "maxLength": 40,
    "not": {"enum": list(RESERVED_NAMES)},
    "x-expected": "a name of 1 to 40 characters a-z, 0-9 and -, starting with a letter, not ending with -, and not admin or api",
}


_NO_NUL = r"^[^\x00]*$"
"""PostgreSQL cannot store NUL."""


def _or_null(schema: Schema, default: Any, text: str) -> Schema:
    nullable = schema | {"type": [schema["type"], "null"]}
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    return nullable | {"default": default, "description": text}


def _text(most: int, text: str) -> Schema:
    expected = f"text of at most {most} characters without NUL"
    return _or_null({"type": "string", "maxLength": most, "pattern": _NO_NUL, "x-expected": expected}, "", text)


def _count(least: int, most: int, default: int, text: str) -> Schema:
    return _or_null({"type": "integer", "minimum": least, "maximum": most}, default, text)


def _choice(values: tuple[str, ...], default: str, text: str) -> Schema:
    return _or_null({"type": "string", "enum": list(values)}, default, text)


def _words(text: str) -> Schema:
    item = {
        "type": "string",
        "minLength": 1,
        "maxLength": 200,
        "pattern": r"^[\x21-\x7e]+$",
        "x-expected": "printable ASCII without spaces",
    }
    return _or_null({"type": "array", "maxItems": 50, "items": item}, [], text)


def _env(text: str, **more: Any) -> Schema:
    names = {"pattern": ENV_NAME_PATTERN, "maxLength": 256, "x-expected": "letters, digits and _, not starting with a digit"}
    values = {"type": "string", "pattern": _NO_NUL, "x-expected": "text without NUL characters"}
    return (
        _or_null({"type": "object", "maxProperties": MAX_ENV_NAMES, "propertyNames": names, "additionalProperties": values}, {}, text)
        | more
    )


def _object(properties: dict[str, Schema], *, required: tuple[str, ...] = (), read_only: tuple[str, ...] = ()) -> Schema:
    ignored = {name: {"readOnly": True, "description": "read-only; ignored in requests"} for name in read_only if name not in properties}
    schema: Schema = {"type": "object", "properties": properties | ignored, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


_DESCRIBING: dict[str, Schema] = {
    "description": _text(1000, "free text"),
    "display_name": _text(100, "display name"),
}
_SECRETS: dict[str, Schema] = {
    "build_env": _env(
        "environment of the installer only (package indexes and their passwords); applies from the next upload", writeOnly=True
    ),
    "secret_env": _env("like env_vars but never returned; a PUT that omits it keeps it", writeOnly=True),
}
_CODE: dict[str, Schema] = {
    "runtime": {"type": "string", "enum": list(RUNTIMES), "description": "language and version"},
    "entrypoint": _or_null(
        {
            "type": "string",
            "pattern": f"^(?:{ENTRYPOINT_PATTERN[1:-1]})?$",  # older clients send "" for the default
            "maxLength": 200,
            "x-expected": "module.function, such as handler.handle or pkg/mod.fn",
        },
        None,
        "module.function; empty or null: handler.handle (Go: handler.Handle)",
    ),
}
_MEMORY = {
    "memory_mb": _count(0, 8192, 128, "memory of one instance in MB, at least 16; 0 or null: the default")
    | {"not": {"type": "integer", "minimum": 1, "maximum": 15}, "x-expected": "a whole number from 16 to 8192 or null"}
}
_ENV = {"env_vars": _env("environment variables; a PATCH replaces all of them")}

_CALLABLE: dict[str, Schema] = (
    {"name": NAME}
    | _CODE
    | _MEMORY
    | {
        "concurrency": _count(1, 1000, 50, "concurrent calls per instance, further calls wait; default 1 for the aws formats"),
        "event_format": _choice(
            ("sless", "aws-http-v1", "aws-http-v2"),
            "sless",
            "format of the event of an HTTP call; aws-http-v1: API Gateway REST API, v2: HTTP API",
        ),
    }
    | _ENV
    | _SECRETS
    | _DESCRIBING
)
FUNCTION = (
    _CALLABLE
    | FUNCTION_FIELDS
    | {"timeout_sec": _count(0, 900, 30, "seconds until the first byte, then between chunks; 0 or null: the default")}
)
SERVICE = (
    _CALLABLE
    | SERVICE_FIELDS
    | {"timeout_sec": _count(0, 3600, 30, "seconds until the first byte, then between chunks; 0 or null: no limit")}
)
JOB: dict[str, Schema] = (
    {"name": NAME, "run_id": _count(0, 2**31 - 1, 0, "0: do not run; a higher number runs the job again; a lower one is a conflict (409)")}
    | {
        "runtime": _or_null(_CODE["runtime"], None, "runtime of the job's own code; excludes function_ref"),
        "entrypoint": _CODE["entrypoint"],
    }
    | {
        "function_ref": _or_null(
            NAME, None, "function or service whose code to run; memory_mb, timeout_sec and env_vars then override its own"
        )
    }
    | {"event_json": {"description": "the event: JSON text or any JSON value, up to 256 KB; returned as text", "default": "{}"}}
    | _MEMORY
    | {"timeout_sec": _count(1, 3600, 30, "maximum duration of a run in seconds")}
    | _ENV
    | _SECRETS
    | _DESCRIBING
)

_CORS = _object(
    {
        "allow_origins": _words("origins such as https://example.org, or *"),
        "allow_methods": _words("default: the trigger's methods"),
        "allow_headers": _words("default: the headers that the browser asks for"),
        "expose_headers": _words("answer headers that scripts may read"),
        "allow_credentials": _or_null({"type": "boolean"}, False, "allow cookies and Authorization"),
        "max_age_sec": _or_null(
            {"type": "integer", "minimum": 0, "maximum": 86400}, None, "how long browsers may cache the preflight answer"
        ),
    }
)
TRIGGER_COMMON: dict[str, Schema] = {
    "name": NAME,
    "type": {"type": "string", "enum": [str(kind) for kind in TriggerType], "description": "trigger type; cannot be changed"},
    "function_ref": NAME | {"description": "function or service in the namespace; it need not exist yet"},
    "function": {"type": "string", "description": "alias of function_ref, which takes precedence"},
    "enabled": _or_null({"type": "boolean"}, True, "false: the trigger is off"),
}
TRIGGER_FIELDS: dict[TriggerType, dict[str, Schema]] = {
    TriggerType.HTTP: {
        "methods": _or_null(
            {"type": "array", "maxItems": len(METHODS), "items": {"type": "string", "enum": list(METHODS)}, "uniqueItems": True},
            [],
            "empty: all",
        ),
        "auth": _choice(
            ("none", "token", "key"), "none", "what callers must send: nothing, a token of the tenant, or an API key in X-Sless-Key"
        ),
        "cors": _or_null(_CORS, None, "null: no CORS headers"),
        "rate_limit": _or_null({"type": "integer", "minimum": 1, "maximum": 1_000_000}, None, "calls per minute; null: no limit"),
        "callbacks": _or_null({"type": "boolean"}, False, "with auth none: whether callers of asynchronous calls may name a callback URL"),
        "rotate_key": {
            "type": ["boolean", "null"],
            "writeOnly": True,
            "description": "true: create a new API key, shown only once; the old key stops working",
        },
    },
    TriggerType.CRON: {
        "schedule": {
            "type": "string",
            "maxLength": 200,
            "description": "five cron fields, such as 30 4 * * 1-5, or an alias such as @hourly",
        },
        "timezone": _or_null({"type": "string", "maxLength": 64}, "UTC", "IANA name such as Europe/Berlin"),
        "event_json": {"description": "the event: JSON text or any JSON value, up to 256 KB; returned as text", "default": "{}"},
        "pre_warm_seconds": _count(0, 3600, 300, "how many seconds before a firing to start an instance; 0: never"),
        "overlap": _choice(("allow", "forbid"), "allow", "whether a firing may start while the previous run is active"),
        "misfire_grace_seconds": _count(0, 86400, 60, "how many seconds late a firing may still start"),
    },
    TriggerType.EVENT: {
        "queue": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]+$", "x-expected": "the name of an AMQP queue"},
        "amqp_url": {
            "type": ["string", "null"],
            "maxLength": 2000,
            "pattern": r"^amqps?://[\x21-\x7e]+$",
            "x-expected": "an amqp:// or amqps:// URL",
            "writeOnly": True,
            "description": "URL of the broker; default: the shared one, if the operator configured it",
        },
        "prefetch": _count(1, 1000, 10, "maximum number of unacknowledged messages"),
        "max_concurrency": _count(1, 1000, 10, "maximum number of concurrent calls"),
        "max_attempts": _count(1, 100, 5, "attempts before a message moves to {queue}.dead; delays between them are 1, 2, 4 … s"),
    },
}
TRIGGER_REQUIRED: dict[TriggerType, tuple[str, ...]] = {
    TriggerType.HTTP: (),
    TriggerType.CRON: ("schedule",),
    TriggerType.EVENT: ("queue",),
}


_ENABLED = {
    TriggerType.HTTP: "false: the URL answers 503 and the function has no instances",
    TriggerType.CRON: "false: it does not fire, and firings missed meanwhile are not caught up",
    TriggerType.EVENT: "false: nothing is consumed from the queue, and the function has no instances for it",
}


def _trigger(kind: TriggerType, *required: str) -> Schema:
    own = {"type": {"type": "string", "const": str(kind)}, "enabled": TRIGGER_COMMON["enabled"] | {"description": _ENABLED[kind]}}
    properties = TRIGGER_COMMON | own | TRIGGER_FIELDS[kind]
    needed = (*required, *(TRIGGER_REQUIRED[kind] if required else ()))
    return _object(properties, required=needed, read_only=TRIGGER_STATUS)


_FILE = {
    "type": "object",
    "properties": {
        "base64": {"type": "string", "contentEncoding": "base64"},
        "text": {"type": "string"},
        "executable": {"type": "boolean", "default": False},
    },
    "additionalProperties": False,
}
_FILES = {"type": "object", "minProperties": 1, "additionalProperties": {"anyOf": [{"type": "string"}, _FILE]}}

REQUESTS: dict[str, Schema] = {
    "FunctionCreate": _object(FUNCTION, required=("name", "runtime"), read_only=WORKLOAD_STATUS),
    "FunctionReplace": _object(FUNCTION, required=("runtime",), read_only=WORKLOAD_STATUS),
    "FunctionMerge": _object(FUNCTION, read_only=WORKLOAD_STATUS),
    "ServiceCreate": _object(SERVICE, required=("name", "runtime"), read_only=WORKLOAD_STATUS),
    "ServiceReplace": _object(SERVICE, required=("runtime",), read_only=WORKLOAD_STATUS),
    "ServiceMerge": _object(SERVICE, read_only=WORKLOAD_STATUS),
    "JobCreate": _object(JOB, required=("name",), read_only=JOB_STATUS),
    "JobMerge": _object(JOB, read_only=JOB_STATUS),
    "HttpTriggerCreate": _trigger(TriggerType.HTTP, "name", "type", "function_ref"),
    "CronTriggerCreate": _trigger(TriggerType.CRON, "name", "type", "function_ref"),
    "EventTriggerCreate": _trigger(TriggerType.EVENT, "name", "type", "function_ref"),
    "HttpTriggerReplace": _trigger(TriggerType.HTTP, "function_ref"),
    "CronTriggerReplace": _trigger(TriggerType.CRON, "function_ref"),
    "EventTriggerReplace": _trigger(TriggerType.EVENT, "function_ref"),
    "HttpTriggerMerge": _trigger(TriggerType.HTTP),
    "CronTriggerMerge": _trigger(TriggerType.CRON),
    "EventTriggerMerge": _trigger(TriggerType.EVENT),
    "Files": _object({"files": _FILES, "code_hash": {"type": ["string", "null"], "maxLength": 200}}, required=("files",)),
    "UploadForm": {
        "type": "object",
        "properties": {
            "code": {"type": "string", "contentMediaType": "application/zip", "description": "the zip, as a file"},
            "code_hash": {"type": "string", "maxLength": 200},
        },
        "required": ["code"],
    },
    "TenantLimits": _object(limits.SCHEMA, read_only=("namespace", "limits")),
    "Event": {"description": "the event: any JSON value"},
    **OPERATOR_REQUESTS,
}

COMPONENTS: dict[str, Schema] = REQUESTS | ANSWERS | OPERATOR_ANSWERS | OVERVIEW

_FAMILIES: tuple[dict[str, dict[str, Schema]], ...] = (
    {"function": FUNCTION, "service": SERVICE, "job": JOB},
    {f"{kind} trigger": TRIGGER_COMMON | fields for kind, fields in TRIGGER_FIELDS.items()},
)


def relatives_of(component: str) -> tuple[str, dict[str, dict[str, Schema]]]:
    """The kind of resource that a request component describes, and the fields of all kinds in its family: ("cron trigger", {"http trigger":
    …, …}). Empty for components without a family."""
    words = component.removesuffix("Create").removesuffix("Replace").removesuffix("Merge").replace("Trigger", " trigger").lower()
    return words, next((family for family in _FAMILIES if words in family), {})
