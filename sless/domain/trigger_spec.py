"""JSON → trigger, reporting all errors at once."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sless.domain.amqp import parse_broker_url, queue_mistake
from sless.domain.model import Trigger, TriggerType
from sless.domain.schedule import check_schedule, zone_of
from sless.domain.schemas import TRIGGER_COMMON, TRIGGER_FIELDS
from sless.domain.spec import Mode, check_event_size, text_of_event
from sless.domain.validate import found_of, mistakes_of
from sless.errors import Detail, Invalid

KEY_HASH = "key_sha256"
"""Name in `Trigger.secrets` of the sha256 hex of the API key. The key itself is not stored."""
AMQP_URL = "amqp_url"
_EMPTY_WHERE_UNUSED = frozenset({"schedule", "queue"})
_NOT_IN_SPEC = frozenset({"rotate_key", AMQP_URL})


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTrigger:
    """`needs_key`: a new API key has to be created."""

    name: str
    type: TriggerType
    function_ref: str
    enabled: bool
    spec: dict[str, Any]
    secrets: dict[str, str]
    needs_key: bool


def parse_trigger(body: Any, existing: Trigger | None = None, mode: Mode = Mode.CREATE) -> ParsedTrigger:
    """Raises Invalid with all errors, TOO_LARGE for an event over its limit."""
    kind = existing.type if existing else _type_of(body)
    if isinstance(body, dict) and "function_ref" not in body and body.get("function"):
        body = body | {"function_ref": body["function"]}
    if isinstance(body, dict):  # older clients send all fields, those of other types as ""
        body = {name: value for name, value in body.items() if value != "" or name not in _EMPTY_WHERE_UNUSED - TRIGGER_FIELDS[kind].keys()}
    details = mistakes_of(f"{kind.capitalize()}Trigger{mode}", body)
    if not isinstance(body, dict):
        raise Invalid(*details)
    if existing and body.get("name", existing.name) != existing.name:
        details.append(
            Detail(field="name", message=f"cannot be changed: expected {found_of(existing.name)}, found {found_of(body['name'])}")
        )
    if kind is TriggerType.CRON:
        details += _cron_mistakes(body)
    if kind is TriggerType.EVENT:
        details += _event_mistakes(body)
    if details:
        raise Invalid(*details)
    base = existing if existing and mode is Mode.MERGE else None
    spec = _spec_of(kind, body, base)
    kept = _secrets_of(kind, body, existing, spec)
    return ParsedTrigger(
        name=existing.name if existing else body["name"],
        type=kind,
        function_ref=body.get("function_ref") or (base.function_ref if base else ""),
        enabled=_enabled_of(body, base),
        spec=spec,
        secrets=kept,
        needs_key=spec.get("auth") == "key" and (bool(body.get("rotate_key")) or KEY_HASH not in kept),
    )


def new_key() -> tuple[str, str]:
    """A new API key and the hash to store."""
    key = "sk-" + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


def _type_of(body: Any) -> TriggerType:
    known = [str(kind) for kind in TriggerType]
    if not isinstance(body, dict):
        raise Invalid(Detail(field="", message=f"expected a JSON object, found {found_of(body)}"))
    found = body.get("type")
    if found not in known:
        message = f"expected one of {', '.join(known)}, " + (f"found {found_of(found)}" if "type" in body else "found nothing")
        raise Invalid(Detail(field="type", message=message))
    return TriggerType(found)


def _cron_mistakes(body: Mapping[str, Any]) -> list[Detail]:
    found = []
    for field, check in (("schedule", check_schedule), ("timezone", zone_of)):
        value = body.get(field)
        if isinstance(value, str):
            try:
                check(value)
            except ValueError as error:
                found.append(Detail(field=field, message=str(error)))
    return found


def _event_mistakes(body: Mapping[str, Any]) -> list[Detail]:
    queue, url = body.get("queue"), body.get(AMQP_URL)
    found = []
    if isinstance(queue, str) and (mistake := queue_mistake(queue)):
        found.append(Detail(field="queue", message=mistake))
    if isinstance(url, str) and url.startswith(("amqp://", "amqps://")):
        try:
            parse_broker_url(url)
        except ValueError as error:
            found.append(Detail(field=AMQP_URL, message=str(error)))
    return found


def _spec_of(kind: TriggerType, body: Mapping[str, Any], base: Trigger | None) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    for name, schema in TRIGGER_FIELDS[kind].items():
        if name in _NOT_IN_SPEC:
            continue
        value = body.get(name) if name in body else (base.spec.get(name) if base else None)
        value = schema.get("default") if value is None else value
        spec[name] = int(value) if isinstance(value, float) and name != "event_json" else value
    if "event_json" in spec:
        spec["event_json"] = text_of_event(spec["event_json"])
        check_event_size("event_json", spec["event_json"])
    if spec.get("cors"):
        spec["cors"] = {name: value for name, value in spec["cors"].items() if value is not None}
    return spec


def _secrets_of(kind: TriggerType, body: Mapping[str, Any], existing: Trigger | None, spec: Mapping[str, Any]) -> dict[str, str]:
    """Secrets are kept unless set, because they are write-only: a client that reads a trigger and PUTs it back cannot send them."""
    kept = dict(existing.secrets) if existing else {}
    if kind is TriggerType.EVENT and AMQP_URL in body:
        kept.pop(AMQP_URL, None)
        kept |= {AMQP_URL: body[AMQP_URL]} if body[AMQP_URL] else {}
    if kind is TriggerType.HTTP and spec["auth"] != "key":
        kept.pop(KEY_HASH, None)
    return kept


def _enabled_of(body: Mapping[str, Any], base: Trigger | None) -> bool:
    if "enabled" in body or base is None:
        given = body.get("enabled")
        return bool(TRIGGER_COMMON["enabled"]["default"]) if given is None else bool(given)
    return base.enabled
