"""Which queues triggers listen to, and why some do not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sless.config import Settings
from sless.domain.model import Kind, Trigger, TriggerType
from sless.reconcile.listens import Idle, Listen, StartListener, StopListener, decide_listens, desired_listeners_of
from tests.builders import AT, NAMESPACE, make_trigger, make_workload

READY = make_workload(id="w", active_version=1)


def settings(**changes: Any) -> Settings:
    return Settings(**{"data_dir": Path(), "rabbitmq_url": "amqp://u:p@mq/"} | changes)


def event(**changes: Any) -> Trigger:
    spec = {"queue": f"{NAMESPACE}.q", "prefetch": 5, "max_concurrency": 2, "max_attempts": 3} | changes.pop("spec", {})
    return make_trigger(**{"id": "t", "type": TriggerType.EVENT, "spec": spec, "secrets": {}} | changes)


def desired(trigger: Trigger, *workloads: Any, **changes: Any) -> Any:
    return desired_listeners_of([trigger], workloads or [READY], settings(**changes)).get("t")


def test_a_trigger_listens_on_the_operators_broker() -> None:
    found = desired(event())
    assert isinstance(found, Listen)
    assert (found.workload_id, found.queue, found.trusted, found.prefetch, found.max_concurrency, found.max_attempts) == (
        "w", f"{NAMESPACE}.q", True, 5, 2, 3,
    )  # fmt: skip
    assert (found.url.host, found.url.port, found.url.user, found.url.vhost) == ("mq", 5672, "u", "/")
    assert "u:p" not in repr(found)


def test_a_triggers_own_broker_is_untrusted_and_any_queue_is_allowed() -> None:
    found = desired(event(spec={"queue": "orders"}, secrets={"amqp_url": "amqps://me:it@h/v%2F1"}), rabbitmq_url="")
    assert (found.trusted, found.url.host, found.url.port, found.url.vhost, found.url.tls) == (False, "h", 5671, "v/1", True)


@pytest.mark.parametrize(
    ("trigger", "workload", "changes", "reason"),
    [
        (event(), replace(READY, name="other"), {}, 'function "hello" not found'),
        (event(), replace(READY, deleted_at=AT), {}, "not found"),
        (event(), replace(READY, kind=Kind.JOB), {}, "not found"),
        (event(), replace(READY, active_version=None), {}, "no ready version"),
        (event(), make_workload(kind=Kind.SERVICE, active_version=1, spec={"replicas": 0}), {}, 'service "hello" is scaled to 0'),
        (event(), READY, {"rabbitmq_url": ""}, "no broker"),
        (event(spec={"queue": "orders"}), READY, {}, 'found "orders"'),
        (event(spec={"queue": "orders"}), READY, {"event_queues_allowed": ("x/orders", "order")}, 'found "orders"'),
        (event(), READY, {"rabbitmq_url": "amqp:/x"}, "SLESS_RABBITMQ_URL: expected"),
    ],
)
def test_why_a_trigger_does_not_listen(trigger: Trigger, workload: Any, changes: dict[str, Any], reason: str) -> None:
    found = desired(trigger, workload, **changes)
    assert isinstance(found, Idle) and reason in found.reason


@pytest.mark.parametrize("allowed", ["orders", f"{NAMESPACE}/orders"])
def test_operators_may_allow_a_queue(allowed: str) -> None:
    assert isinstance(desired(event(spec={"queue": "orders"}), event_queues_allowed=(allowed,)), Listen)


@pytest.mark.parametrize("changes", [{"enabled": False}, {"type": TriggerType.CRON}])
def test_disabled_and_cron_triggers_do_not_listen(changes: dict[str, Any]) -> None:
    assert desired(event(**changes)) is None


def test_decide_listens() -> None:
    one = desired(event())
    other = replace(one, prefetch=6)
    idle = Idle(trigger_id="t", reason="")
    assert decide_listens({}, {}) == []
    assert decide_listens({"t": one}, {}) == [StartListener(listen=one)]
    assert decide_listens({"t": one}, {"t": one}) == []
    assert decide_listens({"t": other}, {"t": one}) == [StopListener(trigger_id="t"), StartListener(listen=other)]
    assert decide_listens({"t": idle}, {"t": one}) == [StopListener(trigger_id="t")]
    assert decide_listens({"t": idle}, {}) == []
    assert decide_listens({}, {"t": one}) == [StopListener(trigger_id="t")]
