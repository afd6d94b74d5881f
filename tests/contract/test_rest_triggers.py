"""Triggers over REST."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sless.domain.model import CallStatus, CallTrigger, Kind
from sless.store import Store
from tests.contract.rest_harness import Rest, fields_of

HTTP = {"name": "web", "type": "http", "function_ref": "hello"}
CRON = {"name": "tick", "type": "cron", "function_ref": "hello", "schedule": "*/5 * * * *"}
EVENT = {"name": "mail", "type": "event", "function_ref": "hello", "queue": "q", "amqp_url": "amqp://u:hunter2@h/"}


def test_an_http_trigger_gives_the_function_its_url(rest: Rest) -> None:
    rest.function()
    rest.built()
    assert rest.get("functions/hello").json["url"] is None
    response = rest.post("triggers", HTTP)
    assert response.status_code == 201 and response.headers["Location"].endswith("/triggers/web")
    url = f"http://127.0.0.1:9090/fn/{rest.namespace}/hello"
    body = response.json
    assert body | {"url": url, "active": True, "enabled": True, "function": "hello", "message": "", "auth": "none", "methods": []} == body
    assert rest.get("functions/hello").json["url"] == url
    rest.delete("triggers/web")
    assert rest.get("functions/hello").json["url"] is None


def test_a_second_http_trigger_for_a_target_is_409(rest: Rest) -> None:
    rest.function()
    rest.post("triggers", HTTP)
    assert rest.post("triggers", HTTP).json["code"] == "already_exists"
    response = rest.post("triggers", HTTP | {"name": "web2"})
    assert response.status_code == 409 and "web" in response.json["error"]
    assert rest.post("triggers", HTTP | {"name": "web2", "function_ref": "other"}).status_code == 201
    assert rest.patch("triggers/web2", {"function_ref": "hello"}).status_code == 409


def test_a_trigger_is_inactive_while_its_function_is_missing(rest: Rest) -> None:
    body = rest.post("triggers", HTTP).json
    assert body["active"] is False and body["message"] == 'function "hello" not found'
    rest.function()
    rest.built()
    assert rest.get("triggers/web").json["active"] is True
    rest.delete("functions/hello")
    assert rest.get("triggers/web").json["active"] is False
    rest.gone("hello")
    assert [item["message"] for item in rest.get("triggers").json] == ['function "hello" not found']
    rest.function(kind="service")
    rest.built(kind="service")
    assert rest.get("triggers").json[0]["active"] is True
    rest.patch("services/hello", {"replicas": 0})
    assert (rest.get("triggers/web").json["active"], rest.get("triggers/web").json["message"]) == (False, 'service "hello" is scaled to 0')


def test_a_trigger_that_cannot_work_is_inactive(rest: Rest) -> None:
    rest.function()
    for body in (HTTP, CRON, EVENT):
        made = rest.post("triggers", body).json
        assert (made["active"], made["message"]) == (False, 'function "hello" has no ready version')
    rest.built()
    assert {item["name"]: item["active"] for item in rest.get("triggers").json} == {"mail": False, "tick": True, "web": True}
    trigger = rest.store.triggers.get(rest.namespace, "mail")
    rest.store.triggers.set_observed(trigger.id, message="h: access refused", active=False, last_status=None)
    assert [item["message"] for item in rest.get("triggers?active=false").json] == ["h: access refused"]
    rest.store.triggers.set_observed(trigger.id, message='listening on queue "q"', active=True, last_status=None)
    assert rest.get("triggers/mail").json["active"] is True and rest.get("triggers?active=false").json == []
    assert [item["name"] for item in rest.get("triggers?active=true&limit=2").json] == ["mail", "tick"]
    assert fields_of(rest.get("triggers?active=maybe")) == {"active"}


def test_a_disabled_trigger(rest: Rest) -> None:
    rest.function()
    rest.built()
    body = rest.post("triggers", HTTP | {"enabled": False}).json
    assert body["active"] is False and body["message"] == "disabled"
    assert rest.patch("triggers/web", {"enabled": True}).json["active"] is True


def test_cron_fields_and_defaults(rest: Rest) -> None:
    body = rest.post("triggers", CRON | {"event_json": {"a": 1}}).json
    expected = {"timezone": "UTC", "event_json": '{"a": 1}', "pre_warm_seconds": 300, "overlap": "allow", "misfire_grace_seconds": 60}
    assert body | expected == body and body["url"] is None
    response = rest.post("triggers", CRON | {"name": "x", "schedule": "0 0 30 2 *", "timezone": "Mars/Base", "colour": 1})
    assert fields_of(response) == {"schedule", "timezone", "colour"}


def test_write_only_values_are_never_returned(rest: Rest) -> None:
    texts = [rest.post("triggers", EVENT), rest.get("triggers/mail"), rest.get("triggers"), rest.patch("triggers/mail", {"prefetch": 3})]
    assert not any("hunter2" in item.text for item in texts)
    assert rest.get("triggers/mail").json["has_amqp_url"] is True
    assert rest.patch("triggers/mail", {"amqp_url": None, "queue": f"{rest.namespace}.q"}).json["has_amqp_url"] is False
    assert "hunter2" not in rest.post("triggers", EVENT | {"name": "x", "amqp_url": "http://hunter2"}).text


def test_queues_on_the_shared_broker_must_start_with_the_namespace(rest: Rest) -> None:
    shared = {key: value for key, value in EVENT.items() if key != "amqp_url"}
    refused = rest.post("triggers", shared | {"queue": "orders"})
    assert fields_of(refused) == {"queue"}
    assert f'must start with "{rest.namespace}."' in refused.json["error"] and 'found "orders"' in refused.json["error"]
    assert fields_of(rest.post("triggers", shared | {"queue": f"{rest.namespace}x.orders"})) == {"queue"}
    made = rest.post("triggers", shared | {"queue": f"{rest.namespace}.orders"})
    assert made.status_code == 201 and made.json["max_attempts"] == 5
    assert fields_of(rest.patch("triggers/mail", {"queue": "orders"})) == {"queue"}
    assert rest.patch("triggers/mail", {"queue": "orders", "amqp_url": "amqp://mq.example.org"}).status_code == 200
    assert fields_of(rest.patch("triggers/mail", {"amqp_url": None})) == {"queue"}
    assert rest.waker.topics.count("events") == 2


def test_an_operator_may_allow_queues(make_store: Callable[..., Store], tmp_path: Path) -> None:
    rest = Rest(make_store(), tmp_path, event_queues_allowed=("orders", "sless-0000000000000000/theirs"))
    shared = {key: value for key, value in EVENT.items() if key != "amqp_url"}
    assert rest.post("triggers", shared | {"queue": "orders"}).status_code == 201
    assert fields_of(rest.post("triggers", shared | {"name": "x", "queue": "theirs"})) == {"queue"}


def test_a_broker_in_a_private_network_is_refused(make_store: Callable[..., Store], tmp_path: Path) -> None:
    rest = Rest(make_store(), tmp_path, outbound_allow=("10.1.0.0/16:5672",))
    for host in ("127.0.0.1", "[::1]", "10.2.0.1", "169.254.169.254", "0x7f000001", "10.1.0.1:5673"):
        refused = rest.post("triggers", EVENT | {"amqp_url": f"amqp://u:hunter2@{host}/"})
        assert fields_of(refused) == {"amqp_url"}, host
        assert "hunter2" not in refused.text
    assert rest.post("triggers", EVENT | {"amqp_url": "amqp://u:p@10.1.0.1/"}).status_code == 201


def test_api_keys_are_shown_once_and_stored_as_hashes(rest: Rest) -> None:
    rest.function()
    key = rest.post("triggers", HTTP | {"auth": "key"}).json["api_key"]

    def hashes() -> tuple[str, ...]:
        snapshot = rest.store.routes.find_snapshot(-1)
        assert snapshot is not None and snapshot.routes[0].http is not None
        return snapshot.routes[0].http.key_hashes

    assert hashes() == (hashlib.sha256(key.encode()).hexdigest(),)
    assert "api_key" not in rest.get("triggers/web").json and rest.get("triggers/web").json["has_key"]
    assert "api_key" not in rest.patch("triggers/web", {"rate_limit": 5}).json and len(hashes()) == 1
    new = rest.patch("triggers/web", {"rotate_key": True}).json["api_key"]
    assert new != key and hashes() == (hashlib.sha256(new.encode()).hexdigest(),)
    assert rest.patch("triggers/web", {"auth": "none"}).json["has_key"] is False and hashes() == ()


def test_put_patch_if_match_and_delete(rest: Rest) -> None:
    created = rest.post("triggers", CRON | {"timezone": "Europe/Berlin"})
    etag = created.headers["ETag"]
    read = rest.get("triggers/tick").json
    assert rest.put("triggers/tick", read).json["timezone"] == "Europe/Berlin"
    assert rest.patch("triggers/tick", {}, headers={"If-Match": etag}).status_code == 412
    assert rest.put("triggers/tick", {"function_ref": "x", "schedule": "@daily"}).json["timezone"] == "UTC"
    assert fields_of(rest.put("triggers/tick", {})) == {"function_ref", "schedule"}
    assert fields_of(rest.patch("triggers/tick", {"type": "http"})) == {"type"}
    assert rest.delete("triggers/tick", headers={"If-Match": etag}).status_code == 412
    response = rest.delete("triggers/tick")
    assert response.status_code == 202 and response.json["name"] == "tick"
    assert rest.get("triggers/tick").status_code == 404 and rest.post("triggers", CRON).status_code == 201


def test_list_pages(rest: Rest) -> None:
    for name in ("c", "a", "b"):
        rest.post("triggers", CRON | {"name": name})
    assert [item["name"] for item in rest.get("triggers").json] == ["a", "b", "c"]
    page = rest.get("triggers?limit=2")
    assert [item["name"] for item in rest.get(page.headers["Link"].partition(">")[0][1:]).json] == ["c"]


@pytest.mark.parametrize(
    ("trigger", "expected"), [(HTTP, CallTrigger.HTTP), (CRON | {"event_json": {"a": 1}}, CallTrigger.CRON), (EVENT, CallTrigger.EVENT)]
)
def test_fire_accepts_one_run(rest: Rest, trigger: dict[str, Any], expected: CallTrigger) -> None:
    rest.function()
    rest.post("triggers", trigger | {"enabled": False})
    response = rest.post(f"triggers/{trigger['name']}/fire", headers={"X-Request-Id": "mine-1"})
    assert response.status_code == 202 and response.json["status"] == "queued" and response.json["request_id"] == "mine-1"
    run = rest.store.runs.get(response.json["id"])
    assert (run.trigger, run.status, run.kind, run.name) == (expected, CallStatus.QUEUED, Kind.FUNCTION, "hello")
    assert run.event == ('{"a": 1}' if expected is CallTrigger.CRON else "{}")
    assert "runs" in rest.waker.topics
    seen = rest.get(response.headers["Location"]).json
    assert (seen["status"], seen["trigger"], seen["logs"]) == ("queued", str(expected), [])
    other = rest.post(f"triggers/{trigger['name']}/fire", [1, 2])
    assert rest.store.runs.get(other.json["id"]).event == "[1, 2]"


def test_fire_without_target(rest: Rest) -> None:
    rest.post("triggers", HTTP)
    assert rest.post("triggers/web/fire").status_code == 404
    rest.function()
    rest.delete("functions/hello")
    assert rest.post("triggers/web/fire").status_code == 409
    assert rest.post("triggers/web/fire", data=b"{", content_type="application/json").status_code in (400, 409)
