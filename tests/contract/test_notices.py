"""Notices to tenants: sent once per event, signed and retried like callbacks."""

import hashlib
import hmac
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sless import clock, metrics
from sless.domain.addresses import parse_allowed
from sless.domain.callback import CallbackStatus
from sless.domain.limits import LimitName, refusal_of
from sless.domain.model import CallStatus, Kind, Observed, TriggerType, VersionState
from sless.errors import Code, SlessError
from sless.outbound import Outbound
from sless.proxy.limits_reached import LimitsReached
from sless.reconcile.callbacks import CallbacksLoop
from sless.reconcile.limit_notices import LimitNotices
from sless.reconcile.outbox import NoticeOutbox
from sless.store import Store, open_store
from tests.builders import make_run
from tests.contract.rest_harness import Rest
from tests.contract.store_steps import claim_run
from tests.contract.test_callbacks_loop import Receiver, Waker, receiver
from tests.services.product import wait_until

__all__ = ["receiver"]
URL = "https://example.com/hook"


@pytest.fixture
def tenant(rest: Rest) -> Rest:
    """With a `notify_url` and the function `hello`."""
    assert rest.put("notifications", {"notify_url": URL}).json == {"namespace": rest.namespace, "notify_url": URL}
    rest.function("hello")
    return rest


def events(rest: Rest) -> list[tuple[str, str]]:
    """(event, name), oldest first."""
    found = [json.loads(item.body) for item in reversed(rest.store.notices.list_in(rest.namespace))]
    return [(item["event"], item.get("name", "")) for item in found]


def test_the_url_is_checked_and_can_be_removed(rest: Rest) -> None:
    assert rest.get("notifications").json["notify_url"] is None
    for bad in ("ftp://example.com", "http://127.0.0.1/x", "https://u:p@example.com/", "nonsense"):
        response = rest.put("notifications", {"notify_url": bad})
        assert response.status_code == 400 and response.json["details"][0]["field"] == "notify_url"
    assert rest.put("notifications", {}).status_code == 400
    rest.put("notifications", {"notify_url": URL})
    assert rest.put("notifications", {"notify_url": None}).json["notify_url"] is None
    assert [entry["action"] for entry in rest.get("audit").json][:2] == ["notifications.update", "notifications.update"]


def test_a_failed_build_is_reported_and_a_good_one_is_not(tenant: Rest) -> None:
    tenant.built("hello")
    tenant.upload("hello", files={"handler.py": "import nothing\ndef handle(event): return 1\n"})
    tenant.finish("hello", number=2, state=VersionState.FAILED, message="ModuleNotFoundError: nothing")
    assert events(tenant) == [("build.failed", "hello")]
    body = json.loads(tenant.store.notices.list_in(tenant.namespace)[0].body)
    assert (body["version"], body["message"], body["namespace"]) == (2, "ModuleNotFoundError: nothing", tenant.namespace)


def test_a_failing_function_is_reported_once(tenant: Rest) -> None:
    workload = tenant.store.workloads.get(tenant.namespace, Kind.FUNCTION, "hello")
    failing = Observed(generation=1, version=1, failing=True, message="exited with code 3")
    tenant.store.workloads.set_observed(workload.id, failing)
    tenant.store.workloads.set_observed(workload.id, replace(failing, message="exited with code 4"))
    tenant.store.workloads.set_observed(workload.id, Observed())
    tenant.store.workloads.set_observed(workload.id, failing)
    assert events(tenant) == [("function.failed", "hello")]


def test_dead_letters_are_reported(tenant: Rest) -> None:
    workload = tenant.store.workloads.get(tenant.namespace, Kind.FUNCTION, "hello")
    for status in (CallStatus.DEAD, CallStatus.FAILED):
        run = make_run(workload_id=workload.id, namespace=tenant.namespace, name="hello")
        tenant.store.runs.insert(run)
        claim_run(tenant.store, run.id, "h", 1)
        tenant.store.runs.finish(run.id, status=status, message="why")
    trigger = tenant.store.triggers.insert(tenant.namespace, name="q", type=TriggerType.EVENT, function_ref="hello")
    for _ in range(2):
        tenant.store.triggers.set_observed(trigger.id, message="", active=True, last_status="dead")
    assert sorted(events(tenant)) == [("call.dead", "hello"), ("call.dead", "q")]


def test_a_reached_limit_is_reported_once_an_hour(tenant: Rest) -> None:
    tenant.store.tenants.set_limits(tenant.namespace, {"functions": 1})
    for name in ("b", "c"):
        assert tenant.post("functions", {"name": name, "runtime": "python3.11"}).status_code == 403
    assert events(tenant) == [("limit.reached", "")]
    body = json.loads(tenant.store.notices.list_in(tenant.namespace)[0].body)
    assert body["limit"] == "functions" and "at most 1" in body["message"]


def test_the_limit_of_builds_is_reported_too(tenant: Rest) -> None:
    tenant.store.tenants.set_limits(tenant.namespace, {"builds_per_hour": 0})
    assert tenant.upload("hello").status_code == 429
    assert events(tenant) == [("limit.reached", "")]


def test_limits_of_calls_are_reported_once_an_hour(tenant: Rest) -> None:
    noted = LimitsReached()
    loop = LimitNotices(store=tenant.store, noted=noted)
    calls, memory = refusal_of(LimitName.CALLS_PER_MINUTE, 3, 4), refusal_of(LimitName.MEMORY_MB, 64, 128)
    for error in (calls, memory, calls, SlessError(Code.OVERLOADED, "no limit of a tenant")):
        noted.note(tenant.namespace, error)
    noted.note("sless-without-a-url", calls)
    loop.tick()
    noted.note(tenant.namespace, calls)
    assert noted.take() == {}, "not again within the hour"
    bodies = [json.loads(item.body) for item in tenant.store.notices.list_in(tenant.namespace)]
    assert sorted(body["limit"] for body in bodies) == ["calls_per_minute", "memory_mb"]


def test_a_limit_is_reported_later_if_the_database_is_unavailable(tenant: Rest, tmp_path: Path) -> None:
    noted, away = LimitsReached(), open_store(f"sqlite:///{tmp_path}/empty.db", durable=False)
    noted.note(tenant.namespace, refusal_of(LimitName.CALLS_PER_MINUTE, 3, 4))
    with pytest.raises(SlessError):
        LimitNotices(store=away, noted=noted).tick()  # no tables
    away.close()
    LimitNotices(store=tenant.store, noted=noted).tick()
    assert events(tenant) == [("limit.reached", "")]


def test_without_a_url_nothing_is_stored(rest: Rest) -> None:
    rest.function("hello")
    rest.built("hello", state=VersionState.FAILED)
    assert rest.store.notices.list_in(rest.namespace) == []


def make_loop(store: Store) -> CallbacksLoop:
    outbound = Outbound(allowed=parse_allowed(["127.0.0.0/8"]), resolve=lambda host, port: ["127.0.0.1"])
    return CallbacksLoop(store=store, outbound=outbound, waker=Waker(), outbox=NoticeOutbox(store))


def test_notices_are_signed_retried_and_never_sent_to_private_addresses(tenant: Rest, receiver: Receiver) -> None:
    store = tenant.store
    receiver.answers = [(500, {}), (204, {})]
    store.notices.set_url(tenant.namespace, f"http://example.com:{receiver.port}/hook")
    tenant.built("hello", state=VersionState.FAILED)
    loop, retried = make_loop(store), (retries("notices"), retries("callbacks"))
    try:
        notice = sent(store, loop, tenant.namespace, 1)
        assert (retries("notices"), retries("callbacks")) == (retried[0] + 1, retried[1])
        assert (notice.status, notice.http_status) == (CallbackStatus.PENDING, 500)
        store.notices.postponed(replace(notice, attempts=0), clock.now() - timedelta(seconds=1), 500, "again")
        notice = sent(store, loop, tenant.namespace, 2)
    finally:
        loop.stop()
    assert notice.status is CallbackStatus.DELIVERED
    path, headers, body = receiver.got[-1]
    key = store.callbacks.keys(tenant.namespace)[0].secret
    signed = f"{headers['x-sless-timestamp']}.{notice.url}.".encode() + body
    assert headers["x-sless-signature"] == "v1=" + hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()
    assert (path, headers["x-sless-event"], json.loads(body)["event"]) == ("/hook", "build.failed", "build.failed")
    refusing = CallbacksLoop(
        store=store, outbound=Outbound(resolve=lambda host, port: ["10.0.0.1"]), waker=Waker(), outbox=NoticeOutbox(store)
    )  # fmt: skip
    tenant.upload("hello", files={"handler.py": "def handle(event):\n    return 2\n"})
    tenant.finish("hello", number=2, state=VersionState.FAILED)
    try:
        refusing.tick()
        wait_until(lambda: any(item.status is CallbackStatus.FAILED for item in store.notices.list_in(tenant.namespace)), "it is given up")
    finally:
        refusing.stop()


def retries(what: str) -> float:
    return metrics.REGISTRY.get_sample_value(f"sless_{what}_total", {"result": "retried"}) or 0.0


def sent(store: Store, loop: CallbacksLoop, namespace: str, attempts: int) -> Any:
    loop.tick()
    wait_until(lambda: store.notices.list_in(namespace)[0].attempts == attempts, f"attempt {attempts} has ended")
    return store.notices.list_in(namespace)[0]
