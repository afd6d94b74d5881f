"""The attributes of every resource. Defaults are the server's, from `domain.schemas`."""

from functools import partial
from typing import Any

from tf.types import Unknown

from sless.domain import schemas
from sless.domain.model import TriggerType
from sless.domain.runtimes import RUNTIMES
from sless.terraform.fields import BOOL, NUMBER, STRINGS, TEXT_MAP, Field, Role, Values, same_json, zero_means

required = partial(Field, role=Role.REQUIRED)
status = partial(Field, role=Role.STATUS)
outcome = partial(Field, role=Role.STATUS, stable=True)


def setting(kind: dict[str, Any], name: str, text: str, **more: Any) -> Field:
    """A field of the REST interface with the server's default."""
    default = kind[name]["default"]
    return Field(name=name, text=text, role=Role.DEFAULTED, default=default, **({"same": zero_means(default)} | more))


def environment(name: str, text: str, **more: Any) -> Field:
    return Field(name=name, text=text, type=TEXT_MAP, sensitive=True, same=_same_map, **more)


def default_entrypoint(planned: Values) -> Any:
    runtime = planned.get("runtime")
    if runtime is Unknown:
        return Unknown
    return RUNTIMES[runtime].default_entrypoint if runtime in RUNTIMES else None


def local(name: str, text: str, default: int | None = None) -> Field:
    role = Role.OPTIONAL if default is None else Role.DEFAULTED
    return Field(name=name, text=text, type=NUMBER if default is not None else Field.type, local=True, role=role, default=default)


def _same_map(first: Any, second: Any) -> bool:
    return _without_nulls(first) == _without_nulls(second)


def _without_nulls(value: Any) -> Any:
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value or {}


NAME = required(name="name", text="Name within the namespace; functions and services share their names.", replaces=True)
ID = outcome(name="id", text="Same as `name`.", api="name")
NAMESPACE = outcome(name="namespace", text="Namespace of the tenant.")
DESCRIBING = (
    setting(schemas.FUNCTION, "description", "Free text."),
    setting(schemas.FUNCTION, "display_name", "Name for people."),
)
CODE = (
    local("source_dir", "Folder with the code. It is zipped in memory; `.slessignore` names what to leave out."),
    local("code_path", "Folder, zip or single file with the code. Conflicts with `source_dir`."),
    Field(
        name="code_hash",
        text="Hash of the code; a change uploads it. By default computed from the paths, execute bits and contents of the files.",
        role=Role.DEFAULTED,
        sent=False,
    ),
)
WAITING = (
    local("build_timeout_sec", "Seconds to wait for a build.", 300),
    local("wait_timeout_sec", "Seconds to wait until the resource is ready, has ended, or is gone.", 300),
)
BUILD_STATUS = (
    status(
        name="phase",
        text="`Pending`, `Building`, `Deploying`, `Ready`, `Failed` or `Deleting`; of a job `Running`, `Succeeded` or `Skipped`.",
    ),
    status(name="message", text="Why the resource is in its phase."),
    status(name="active_version", text="Number of the version that serves.", type=NUMBER),
    status(name="latest_version", text="Number of the newest version.", type=NUMBER),
    status(name="code_sha256", text="SHA-256 that the server computed over the active version's files."),
    status(name="image_ref", text="Image of the active version, where images are built."),
)
TIMES = (
    outcome(name="created_at", text="Time of creation (RFC 3339)."),
    status(name="updated_at", text="Time of the last change (RFC 3339)."),
)


def _callable(kind: dict[str, Any]) -> tuple[Field, ...]:
    """What functions and services have in common. A new setting of the REST interface is one line here."""
    return (
        NAME,
        required(
            name="runtime",
            text=f"Language and version: {', '.join(f'`{name}`' for name in RUNTIMES)}. Another language replaces the resource.",
        ),
        Field(
            name="entrypoint",
            text="`module.function`. Default: `handler.handle`, for Go `handler.Handle`.",
            role=Role.DEFAULTED,
            default=default_entrypoint,
        ),
        setting(kind, "memory_mb", "Memory of one instance in MB.", type=NUMBER),
        setting(kind, "concurrency", "Calls at once per instance; more wait.", type=NUMBER),
        setting(kind, "event_format", "Shape of the event of a call over HTTP: `sless` or `aws-http-v2`."),
        environment("env_vars", "Environment of the code."),
        environment("build_env", "Environment of the package installer alone, such as an index with a password.", write_only=True),
        environment("secret_env", "Like `env_vars`, but the server never shows it.", write_only=True),
        *DESCRIBING,
    )


FUNCTION = (
    *_callable(schemas.FUNCTION),
    setting(schemas.FUNCTION, "timeout_sec", "Seconds to the first byte of an answer, then between chunks.", type=NUMBER),
    *CODE,
    *WAITING,
    ID,
    NAMESPACE,
    *BUILD_STATUS,
    outcome(name="url", text="URL of a call. It answers while an enabled `http` trigger refers to the function."),
    *TIMES,
)
SERVICE = (
    *_callable(schemas.SERVICE),
    Field(
        name="timeout_sec",
        text="Seconds to the first byte of an answer, then between chunks; 0: no limit.",
        type=NUMBER,
        role=Role.DEFAULTED,
        default=schemas.SERVICE["timeout_sec"]["default"],
    ),
    setting(schemas.SERVICE, "replicas", "Standing instances.", type=NUMBER, same=None),
    *CODE,
    *WAITING,
    ID,
    NAMESPACE,
    *BUILD_STATUS,
    outcome(name="url", text="URL of the service."),
    outcome(name="invoke_url", text="Same as `url`.", api="url"),
    *TIMES,
)

TRIGGER_FIELDS = {
    "http": ("methods", "auth", "cors", "rate_limit"),
    "cron": ("schedule", "timezone", "event_json", "pre_warm_seconds", "overlap", "misfire_grace_seconds"),
    "event": ("queue", "amqp_url", "prefetch", "max_concurrency", "max_attempts"),
}
"""type → attributes of that type alone."""
TRIGGER_REQUIRED = {"cron": ("schedule",), "event": ("queue",)}
_HTTP, _CRON, _EVENT = (schemas.TRIGGER_FIELDS[TriggerType(kind)] for kind in ("http", "cron", "event"))
CORS = (
    Field(name="allow_origins", text="Origins such as `https://example.org`, or `*`.", type=STRINGS),
    Field(name="allow_methods", text="Default: the trigger's methods.", type=STRINGS),
    Field(name="allow_headers", text="Default: whatever the browser asks for.", type=STRINGS),
    Field(name="expose_headers", text="Headers that scripts may read.", type=STRINGS),
    Field(name="allow_credentials", text="Whether cookies and Authorization may be sent.", type=BOOL),
    Field(name="max_age_sec", text="Seconds that a browser may remember the answer.", type=NUMBER),
)


def _same_object(first: Any, second: Any) -> bool:
    """Attributes that are null and those that are empty mean the same."""
    return _filled(first) == _filled(second)


def _filled(value: Any) -> Any:
    return {key: item for key, item in value.items() if item not in (None, [], False)} if isinstance(value, dict) else value


def _same_set(first: Any, second: Any) -> bool:
    return sorted(first or []) == sorted(second or [])


TRIGGER = (
    NAME,
    required(name="type", text="`http`, `cron` or `event`.", replaces=True),
    Field(name="function_ref", text="Function or service to call. It need not exist yet.", role=Role.DEFAULTED),
    Field(name="function", text="Former name of `function_ref`.", role=Role.DEFAULTED, sent=False, deprecated=True),
    Field(name="enabled", text="`false`: it sets nothing off.", type=BOOL, role=Role.DEFAULTED, default=True),
    Field(name="methods", text="http: allowed methods; default: all.", type=STRINGS, same=_same_set),
    setting(_HTTP, "auth", "http: what a call must carry: `none`, `token` (of the tenant) or `key` (the header X-Sless-Key)."),
    Field(name="cors", text="http: CORS headers; default: none.", nested=CORS, same=_same_object),
    Field(name="rate_limit", text="http: calls per minute; default: no limit.", type=NUMBER, same=zero_means(None)),
    Field(name="schedule", text="cron: five fields such as `30 4 * * 1-5`, or `@hourly` and the like.", same=zero_means(None)),
    setting(_CRON, "timezone", "cron: IANA name of the schedule's time zone."),
    setting(_CRON, "event_json", "cron: the event, JSON text.", same=same_json),
    setting(_CRON, "pre_warm_seconds", "cron: seconds before a firing at which an instance is started.", type=NUMBER, same=None),
    setting(_CRON, "overlap", "cron: `forbid` skips a firing while the one before still runs; `allow`."),
    setting(_CRON, "misfire_grace_seconds", "cron: how late a firing may still begin.", type=NUMBER, same=None),
    Field(name="queue", text="event: name of the AMQP queue.", same=zero_means(None)),
    Field(name="amqp_url", text="event: URL of the broker; default: the operator's.", sensitive=True, write_only=True),
    setting(_EVENT, "prefetch", "event: messages taken and not yet acknowledged, at most.", type=NUMBER),
    setting(_EVENT, "max_concurrency", "event: calls at once.", type=NUMBER),
    setting(_EVENT, "max_attempts", "event: attempts before a message goes to `{queue}.dead`.", type=NUMBER),
    local("wait_timeout_sec", "Seconds to wait until the target of an `http` trigger is ready, and until the trigger is gone.", 300),
    ID,
    NAMESPACE,
    status(name="active", text="Whether it is enabled and its target exists.", type=BOOL),
    status(name="message", text="Why it is not active."),
    outcome(name="url", text="http: URL of a call."),
    outcome(name="trigger_url", text="Same as `url`.", api="url"),
    outcome(name="api_key", text='http with `auth = "key"`: the key, as shown once when it was made.', sensitive=True),
    *TIMES,
)
