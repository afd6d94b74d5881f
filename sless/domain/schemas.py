"""JSON Schema (2020-12) of everything that goes in and out of the REST interface: it validates requests, and is the OpenAPI document's.

Requests live here, answers in `answer_schemas`. In a request a read-only field may say anything (it was read back, and is ignored), `null`
restores the default, and what is in no schema is a mistake. `x-expected` is what an error message says a pattern stands for.
"""

from typing import Any

from sless.domain.answer_schemas import ANSWERS, JOB_STATUS, TRIGGER_STATUS, WORKLOAD_STATUS, Schema
from sless.domain.model import TriggerType
from sless.domain.runtimes import RUNTIMES

NAME_PATTERN = r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$"
RESERVED_NAMES = ("admin", "api")
ENTRYPOINT_PATTERN = r"^[A-Za-z0-9_@$-]+([./][A-Za-z0-9_@$-]+)*\.[A-Za-z_$][A-Za-z0-9_$]*$"
ENV_NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MAX_EVENT_BYTES = 256 * 1024

NAME: Schema = {
    "type": "string",
    "pattern": NAME_PATTERN,
    "maxLength": 40,
    "not": {"enum": list(RESERVED_NAMES)},
    "x-expected": "1 to 40 of a-z, 0-9 and -, first a letter, last no -, and neither admin nor api",
}


def _or_null(schema: Schema, default: Any, text: str) -> Schema:
    nullable = schema | {"type": [schema["type"], "null"]}
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    return nullable | {"default": default, "description": text}


def _text(most: int, text: str) -> Schema:
    return _or_null({"type": "string", "maxLength": most}, "", text)


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
        "x-expected": "printable ASCII without blanks",
    }
    return _or_null({"type": "array", "maxItems": 50, "items": item}, [], text)


def _env(text: str, **more: Any) -> Schema:
    names = {"pattern": ENV_NAME_PATTERN, "maxLength": 256, "x-expected": "letters, digits and _, first no digit"}
    values = {"type": "string", "pattern": r"^[^\x00]*$", "x-expected": "text without NUL characters"}
    return _or_null({"type": "object", "propertyNames": names, "additionalProperties": values}, {}, text) | more


def _object(properties: dict[str, Schema], *, required: tuple[str, ...] = (), read_only: tuple[str, ...] = ()) -> Schema:
    ignored = {name: {"readOnly": True, "description": "ignored: it can only be read"} for name in read_only if name not in properties}
    schema: Schema = {"type": "object", "properties": properties | ignored, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


_DESCRIBING: dict[str, Schema] = {
    "description": _text(1000, "free text"),
    "display_name": _text(100, "name for people"),
}
_SECRETS: dict[str, Schema] = {
    "build_env": _env(
        "environment of the installer alone (package indexes and their passwords); takes part in the next upload", writeOnly=True
    ),
    "secret_env": _env("like env_vars, never shown; kept when a PUT leaves it out", writeOnly=True),
}
_CODE: dict[str, Schema] = {
    "runtime": {"type": "string", "enum": list(RUNTIMES), "description": "language and version"},
    "entrypoint": _or_null(
        {
            "type": "string",
            "pattern": ENTRYPOINT_PATTERN,
            "maxLength": 200,
            "x-expected": "module.function, such as handler.handle or pkg/mod.fn",
        },
        None,
        "module.function; default: handler.handle, Go: handler.Handle",
    ),
}
_MEMORY = {"memory_mb": _count(16, 8192, 128, "memory of one instance in MB")}
_ENV = {"env_vars": _env("environment of the code; a PATCH replaces it as a whole")}

_CALLABLE: dict[str, Schema] = (
    {"name": NAME}
    | _CODE
    | _MEMORY
    | {
        "concurrency": _count(1, 1000, 50, "calls at once per instance, further calls wait; default 1 for the aws formats"),
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
FUNCTION = _CALLABLE | {"timeout_sec": _count(1, 900, 30, "seconds to the first byte, then between chunks")}
SERVICE = _CALLABLE | {
    "timeout_sec": {
        "type": ["integer", "null"],
        "minimum": 0,
        "maximum": 3600,
        "default": 30,
        "description": "seconds to the first byte, then between chunks; 0 or null: no limit",
    },
    "replicas": _count(0, 20, 1, "standing instances"),
}
JOB: dict[str, Schema] = (
    {"name": NAME, "run_id": _count(0, 2**31 - 1, 0, "0: do not run; raising it runs the job again; lowering it is a conflict")}
    | {"runtime": _or_null(_CODE["runtime"], None, "own code; not together with function_ref"), "entrypoint": _CODE["entrypoint"]}
    | {
        "function_ref": _or_null(
            NAME, None, "function or service whose code runs; then memory_mb, timeout_sec and env_vars override its own"
        )
    }
    | {"event_json": {"description": "the event: JSON text or any JSON value, at most 256 KB; returned as text", "default": "{}"}}
    | _MEMORY
    | {"timeout_sec": _count(1, 3600, 30, "seconds that one run may take")}
    | _ENV
    | _SECRETS
    | _DESCRIBING
)

_CORS = _object(
    {
        "allow_origins": _words("origins such as https://example.org, or *"),
        "allow_methods": _words("default: the trigger's methods"),
        "allow_headers": _words("default: whatever the browser asks for"),
        "expose_headers": _words("headers that scripts may read"),
        "allow_credentials": _or_null({"type": "boolean"}, False, "cookies and Authorization may be sent"),
        "max_age_sec": _or_null({"type": "integer", "minimum": 0, "maximum": 86400}, None, "how long a browser may remember the answer"),
    }
)
TRIGGER_COMMON: dict[str, Schema] = {
    "name": NAME,
    "type": {"type": "string", "enum": [str(kind) for kind in TriggerType], "description": "what sets it off; cannot be changed"},
    "function_ref": NAME | {"description": "function or service of the namespace; it need not exist yet"},
    "function": {"type": "string", "description": "alias of function_ref, which wins"},
    "enabled": _or_null({"type": "boolean"}, True, "false: it sets nothing off"),
}
TRIGGER_FIELDS: dict[TriggerType, dict[str, Schema]] = {
    TriggerType.HTTP: {
        "methods": _or_null({"type": "array", "items": {"type": "string", "enum": list(METHODS)}, "uniqueItems": True}, [], "empty: all"),
        "auth": _choice(
            ("none", "token", "key"), "none", "what a call must carry: nothing, a token of the tenant, or the header X-Sless-Key"
        ),
        "cors": _or_null(_CORS, None, "null: no CORS headers"),
        "rate_limit": _or_null({"type": "integer", "minimum": 1, "maximum": 1_000_000}, None, "calls per minute; null: no limit"),
        "rotate_key": {"type": ["boolean", "null"], "writeOnly": True, "description": "true: a new API key, shown once; the old one ends"},
    },
    TriggerType.CRON: {
        "schedule": {"type": "string", "maxLength": 200, "description": "five cron fields, such as 30 4 * * 1-5, or @hourly and the like"},
        "timezone": _or_null({"type": "string", "maxLength": 64}, "UTC", "IANA name such as Europe/Berlin"),
        "event_json": {"description": "the event: JSON text or any JSON value, at most 256 KB; returned as text", "default": "{}"},
        "pre_warm_seconds": _count(0, 3600, 300, "how long before a firing an instance is started"),
        "overlap": _choice(("allow", "forbid"), "allow", "whether a firing may begin while the one before still runs"),
        "misfire_grace_seconds": _count(0, 86400, 60, "how late a firing may still begin"),
    },
    TriggerType.EVENT: {
        "queue": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]+$", "x-expected": "the name of an AMQP queue"},
        "amqp_url": {
            "type": ["string", "null"],
            "maxLength": 2000,
            "pattern": r"^amqps?://[\x21-\x7e]+$",
            "x-expected": "an amqp:// or amqps:// URL",
            "writeOnly": True,
            "description": "the broker; default: the one that the operator configured",
        },
        "prefetch": _count(1, 1000, 10, "messages taken and not yet acknowledged, at most"),
        "max_concurrency": _count(1, 1000, 10, "calls at once"),
        "max_attempts": _count(1, 100, 5, "attempts before a message goes to {queue}.dead, after 1, 2, 4 … s each"),
    },
}
TRIGGER_REQUIRED: dict[TriggerType, tuple[str, ...]] = {
    TriggerType.HTTP: (),
    TriggerType.CRON: ("schedule",),
    TriggerType.EVENT: ("queue",),
}


_ENABLED = {
    TriggerType.HTTP: "false: the URL answers 503, and the function has no instances",
    TriggerType.CRON: "false: it does not fire; what it has missed when it is true again is not made up for",
    TriggerType.EVENT: "false: nothing is taken from the queue, and the function has no instances for it",
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
    "LoginForm": {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]},
    "Event": {"description": "the event: any JSON value"},
}

COMPONENTS: dict[str, Schema] = REQUESTS | ANSWERS

_FAMILIES: tuple[dict[str, dict[str, Schema]], ...] = (
    {"function": FUNCTION, "service": SERVICE, "job": JOB},
    {f"{kind} trigger": TRIGGER_COMMON | fields for kind, fields in TRIGGER_FIELDS.items()},
)


def relatives_of(component: str) -> tuple[str, dict[str, dict[str, Schema]]]:
    """What a request's component describes, and the fields by kind of it and its like: ("cron trigger", {"http trigger": …, …}). No
    fields for a component that has no like."""
    words = component.removesuffix("Create").removesuffix("Replace").removesuffix("Merge").replace("Trigger", " trigger").lower()
    return words, next((family for family in _FAMILIES if words in family), {})
