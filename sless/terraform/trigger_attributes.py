"""The attributes of triggers."""

from typing import Any

from sless.domain import schemas
from sless.domain.model import TriggerType
from sless.terraform.attributes import ID, NAME, NAMESPACE, TIMES, local, outcome, required, setting, status
from sless.terraform.fields import BOOL, NUMBER, STRINGS, Field, Role, same_json
from sless.terraform.write_only import hash_field

TRIGGER_FIELDS = {
    "http": ("methods", "auth", "cors", "rate_limit", "callbacks"),
    "cron": ("schedule", "timezone", "event_json", "pre_warm_seconds", "overlap", "misfire_grace_seconds"),
    "event": ("queue", "amqp_url", "prefetch", "max_concurrency", "max_attempts"),
}
"""type → attributes of only that type."""
TRIGGER_REQUIRED = {"cron": ("schedule",), "event": ("queue",)}
_HTTP, _CRON, _EVENT = (schemas.TRIGGER_FIELDS[TriggerType(kind)] for kind in ("http", "cron", "event"))
CORS = (
    Field(name="allow_origins", text="Origins such as `https://example.org`, or `*`.", type=STRINGS),
    Field(name="allow_methods", text="Default: the trigger's methods.", type=STRINGS),
    Field(name="allow_headers", text="Default: whatever the browser asks for.", type=STRINGS),
    Field(name="expose_headers", text="Headers that scripts may read.", type=STRINGS),
    Field(name="allow_credentials", text="Whether cookies and Authorization may be sent.", type=BOOL),
    Field(name="max_age_sec", text="Seconds that a browser may cache the answer.", type=NUMBER),
)


def _same_object(first: Any, second: Any) -> bool:
    """Null and empty attributes mean the same."""
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
    Field(name="enabled", text="`false`: it starts no calls.", type=BOOL, role=Role.DEFAULTED, default=True),
    Field(name="methods", text="http: allowed methods; default: all.", type=STRINGS, same=_same_set),
    setting(_HTTP, "auth", "http: what a call needs: `none`, `token` (of the tenant) or `key` (the header X-Sless-Key)."),
    Field(name="cors", text="http: CORS headers; default: none.", nested=CORS, same=_same_object),
    Field(name="rate_limit", text="http: calls per minute; default: no limit.", type=NUMBER, zero=True),
    setting(_HTTP, "callbacks", 'http with `auth = "none"`: whether callers may name a callback URL.', type=BOOL),
    Field(name="schedule", text="cron: five fields such as `30 4 * * 1-5`, or `@hourly` and the like.", zero=True),
    setting(_CRON, "timezone", "cron: IANA name of the schedule's time zone."),
    setting(_CRON, "event_json", "cron: the event, JSON text.", same=same_json),
    setting(_CRON, "pre_warm_seconds", "cron: how many seconds before a firing to start an instance.", type=NUMBER, zero=False),
    setting(_CRON, "overlap", "cron: `forbid` skips a firing while the previous one is running; `allow`."),
    setting(_CRON, "misfire_grace_seconds", "cron: how many seconds late a firing may start.", type=NUMBER, zero=False),
    Field(name="queue", text="event: name of the AMQP queue.", zero=True),
    Field(name="amqp_url", text="event: URL of the broker; default: the operator's.", sensitive=True, write_only=True),
    setting(_EVENT, "prefetch", "event: maximum number of unacknowledged messages.", type=NUMBER),
    setting(_EVENT, "max_concurrency", "event: maximum number of concurrent calls.", type=NUMBER),
    setting(_EVENT, "max_attempts", "event: attempts before a message goes to `{queue}.dead`.", type=NUMBER),
    local("wait_timeout_sec", "Seconds to wait until the target of an `http` trigger is ready, and until the trigger is gone.", 300),
    ID,
    NAMESPACE,
    hash_field("amqp_url"),
    status(name="active", text="Whether it is enabled and can work: its target has a ready version, its queue is consumed.", type=BOOL),
    status(name="message", text="Why it is not active."),
    outcome(name="url", text="http: URL of a call."),
    outcome(name="trigger_url", text="Same as `url`.", api="url"),
    outcome(name="api_key", text='http with `auth = "key"`: the key, as shown once when it was made.', sensitive=True),
    *TIMES,
)
