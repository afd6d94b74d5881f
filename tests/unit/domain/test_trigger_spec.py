import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from sless.domain.model import Trigger, TriggerType
from sless.domain.schedule import check_schedule, firings_of
from sless.domain.schemas import TRIGGER_FIELDS
from sless.domain.spec import Mode
from sless.domain.trigger_spec import KEY_HASH, ParsedTrigger, new_key, parse_trigger
from sless.errors import Code, Invalid, SlessError

HTTP = {"name": "t", "type": "http", "function_ref": "f"}
CRON = {"name": "t", "type": "cron", "function_ref": "f", "schedule": "*/5 * * * *"}
EVENT = {"name": "t", "type": "event", "function_ref": "f", "queue": "q"}
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def kept(parsed: ParsedTrigger) -> Trigger:
    return Trigger(
        id="i",
        namespace="n",
        name=parsed.name,
        type=parsed.type,
        function_ref=parsed.function_ref,
        enabled=parsed.enabled,
        spec=parsed.spec,
        secrets=parsed.secrets,
        generation=1,
        created_at=NOW,
        updated_at=NOW,
    )


def fields_of(body: Any, *more: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        parse_trigger(body, *more)
    return {detail.field: detail.message for detail in caught.value.details}


def test_defaults_of_each_type() -> None:
    http = parse_trigger(HTTP)
    assert (
        http.spec == {"methods": [], "auth": "none", "cors": None, "rate_limit": None, "callbacks": False}
        and http.enabled
        and not http.needs_key
    )
    assert parse_trigger(CRON).spec == {
        "schedule": "*/5 * * * *",
        "timezone": "UTC",
        "event_json": "{}",
        "pre_warm_seconds": 300,
        "overlap": "allow",
        "misfire_grace_seconds": 60,
    }
    event = parse_trigger(EVENT | {"amqp_url": "amqp://u:p@h/"})
    assert event.spec == {"queue": "q", "prefetch": 10, "max_concurrency": 10, "max_attempts": 5}
    assert event.secrets == {"amqp_url": "amqp://u:p@h/"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "t", "function_ref": "f"}, "type"),
        (HTTP | {"type": "ftp"}, "type"),
        (HTTP | {"type": ["http"]}, "type"),
        ([], ""),
        ({"name": "t", "type": "http"}, "function_ref"),
        (HTTP | {"function_ref": "Nope!"}, "function_ref"),
        (HTTP | {"schedule": "* * * * *"}, "schedule"),
        (HTTP | {"methods": ["get"]}, "methods.0"),
        (HTTP | {"methods": ["GET", "GET"]}, "methods"),
        (HTTP | {"auth": "basic"}, "auth"),
        (HTTP | {"rate_limit": 0}, "rate_limit"),
        (HTTP | {"cors": {"origins": []}}, "cors.origins"),
        (HTTP | {"cors": {"allow_origins": ["a\r\nb"]}}, "cors.allow_origins.0"),
        (HTTP | {"enabled": "yes"}, "enabled"),
        ({"name": "t", "type": "cron", "function_ref": "f"}, "schedule"),
        (CRON | {"schedule": "* * * *"}, "schedule"),
        (CRON | {"schedule": "* * * * * *"}, "schedule"),
        (CRON | {"schedule": "61 * * * *"}, "schedule"),
        (CRON | {"schedule": "0 0 30 2 *"}, "schedule"),
        (CRON | {"schedule": ""}, "schedule"),
        (CRON | {"schedule": 5}, "schedule"),
        (CRON | {"timezone": "Mars/Base"}, "timezone"),
        (CRON | {"timezone": "../../etc/passwd"}, "timezone"),
        (CRON | {"timezone": "Europe"}, "timezone"),
        (CRON | {"timezone": ""}, "timezone"),
        (CRON | {"overlap": "maybe"}, "overlap"),
        (CRON | {"misfire_grace_seconds": -1}, "misfire_grace_seconds"),
        ({"name": "t", "type": "event", "function_ref": "f"}, "queue"),
        (EVENT | {"queue": ""}, "queue"),
        (EVENT | {"queue": "ä" * 121}, "queue"),
        (EVENT | {"amqp_url": "http://x"}, "amqp_url"),
        (EVENT | {"amqp_url": "amqp://"}, "amqp_url"),
        (EVENT | {"amqp_url": "amqp://h:port/"}, "amqp_url"),
        (EVENT | {"amqp_url": "amqps://h/?cafile=/etc/shadow"}, "amqp_url"),
        (EVENT | {"amqp_url": "amqps://h/v/w"}, "amqp_url"),
        (EVENT | {"prefetch": 0}, "prefetch"),
    ],
)
def test_errors(body: Any, field: str) -> None:
    assert field in fields_of(body)


@pytest.mark.parametrize("kind", TriggerType)
@pytest.mark.parametrize("mode", Mode)
def test_the_error_for_another_types_field_says_so(kind: TriggerType, mode: Mode) -> None:
    own = {TriggerType.HTTP: HTTP, TriggerType.CRON: CRON, TriggerType.EVENT: EVENT}[kind]
    foreign = {name: other for other, fields in TRIGGER_FIELDS.items() if other is not kind for name in fields}
    found = fields_of(own | dict.fromkeys(foreign), None if mode is Mode.CREATE else kept(parse_trigger(own)), mode)
    assert found == {name: f"is a field of {other} triggers, not of a {kind} trigger" for name, other in foreign.items()}


def test_errors_are_reported_together_and_hide_secrets() -> None:
    found = fields_of(CRON | {"schedule": "x", "timezone": "y", "overlap": "z", "colour": 1})
    assert set(found) == {"schedule", "timezone", "overlap", "colour"}
    assert "hunter2" not in str(fields_of(EVENT | {"amqp_url": "ftp://u:hunter2@h"}))


def test_function_is_an_alias_that_function_ref_overrides() -> None:
    assert parse_trigger({"name": "t", "type": "http", "function": "g"}).function_ref == "g"
    assert parse_trigger(HTTP | {"function": "g"}).function_ref == "f"
    assert parse_trigger({"function": "g"}, kept(parse_trigger(HTTP)), Mode.MERGE).function_ref == "g"


def test_merge_and_replace() -> None:
    old = kept(parse_trigger(CRON | {"timezone": "Europe/Berlin", "event_json": {"a": 1}, "enabled": False}))
    merged = parse_trigger({"overlap": "forbid", "timezone": None}, old, Mode.MERGE)
    assert merged.spec == old.spec | {"overlap": "forbid", "timezone": "UTC"} and merged.enabled is False
    assert merged.spec["event_json"] == '{"a": 1}'
    replaced = parse_trigger({"function_ref": "g", "schedule": "@daily"}, old, Mode.REPLACE)
    assert replaced.spec["event_json"] == "{}" and replaced.spec["timezone"] == "UTC" and replaced.enabled and replaced.function_ref == "g"
    assert set(fields_of({}, old, Mode.REPLACE)) == {"function_ref", "schedule"}
    assert "type" in fields_of({"type": "http"}, old, Mode.MERGE)
    assert "name" in fields_of({"name": "u"}, old, Mode.MERGE)
    assert parse_trigger({"enabled": None}, old, Mode.MERGE).enabled is True


def test_keys() -> None:
    created = parse_trigger(HTTP | {"auth": "key"})
    assert created.needs_key and created.secrets == {}
    key, digest = new_key()
    assert hashlib.sha256(key.encode()).hexdigest() == digest and new_key()[0] != key
    old = replace(kept(created), secrets={KEY_HASH: digest})
    assert not parse_trigger({"rate_limit": 5}, old, Mode.MERGE).needs_key
    assert parse_trigger({"rate_limit": 5}, old, Mode.MERGE).secrets == {KEY_HASH: digest}
    assert parse_trigger({"rotate_key": True}, old, Mode.MERGE).needs_key
    assert parse_trigger({"auth": "none"}, old, Mode.MERGE).secrets == {}
    assert "rotate_key" not in parse_trigger({"rotate_key": True}, old, Mode.MERGE).spec


def test_amqp_url_is_kept_unless_given() -> None:
    old = kept(parse_trigger(EVENT | {"amqp_url": "amqps://h"}))
    assert parse_trigger({"prefetch": 2}, old, Mode.MERGE).secrets == {"amqp_url": "amqps://h"}
    assert parse_trigger({"function_ref": "f", "queue": "r"}, old, Mode.REPLACE).secrets == {"amqp_url": "amqps://h"}
    assert parse_trigger({"amqp_url": None}, old, Mode.MERGE).secrets == {}


def test_event_over_its_limit() -> None:
    with pytest.raises(SlessError) as caught:
        parse_trigger(CRON | {"event_json": "x" * (256 * 1024 + 1)})
    assert caught.value.code is Code.TOO_LARGE


@pytest.mark.parametrize(
    ("schedule", "first"),
    [
        ("0 0 * * 0", "2026-02-01T00:00"),  # Sunday, as cron counts
        ("0 0 * * 7", "2026-02-01T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("@hourly", "2026-01-31T01:00"),
    ],
)
def test_firings(schedule: str, first: str) -> None:
    check_schedule(schedule)
    assert next(firings_of(schedule, ZoneInfo("UTC"), NOW)).isoformat().startswith(first)


def test_firings_in_a_zone_are_utc() -> None:
    moments = list(islice(firings_of("30 4 * * *", ZoneInfo("Europe/Berlin"), NOW), 2))
    assert [moment.isoformat() for moment in moments] == ["2026-01-31T03:30:00+00:00", "2026-02-01T03:30:00+00:00"]


def test_older_clients_send_empty_fields_of_other_types() -> None:
    parsed = parse_trigger({"name": "t", "type": "http", "function_ref": "f", "schedule": "", "queue": ""})
    assert parsed.type is TriggerType.HTTP and "schedule" not in parsed.spec
    with pytest.raises(Invalid, match="schedule"):
        parse_trigger({"name": "t", "type": "http", "function_ref": "f", "schedule": "* * * * *"})
