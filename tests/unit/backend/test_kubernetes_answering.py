"""Health checks of new pods, over real sockets."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug import Request, Response

from sless.backend.kubernetes.answering import Answering
from sless.backend.kubernetes.observation import endpoint_of
from sless.backend.kubernetes.view import ClusterView
from sless.kube.names import WORKLOAD
from tests.services.fake_http import serving

Json = dict[str, Any]


def health_of(request: Request) -> Response:
    return Response(b'{"active": 0, "overdue": 0}', 200 if request.path == "/_sless/health" else 404)


def pod(name: str, *, ready: bool = False, running: bool = True, restarts: int = 0) -> Json:
    state = {"running": {"startedAt": "2026-01-31T09:26:53Z"}} if running else {"waiting": {}}
    status = {"name": "function", "ready": ready, "restartCount": restarts, "state": state}
    return {
        "metadata": {"uid": name, "name": name, "labels": {WORKLOAD: "w"}, "creationTimestamp": "2026-01-31T09:26:53Z"},
        "status": {"podIP": "127.0.0.1", "containerStatuses": [status]},
        "spec": {"containers": [{"name": "function"}]},
    }


@pytest.fixture
def health() -> Iterator[int]:
    with serving(health_of) as url:
        yield int(url.rpartition(":")[2])


@pytest.fixture
def changed() -> threading.Event:
    return threading.Event()


@pytest.fixture
def answering(changed: threading.Event, health: int) -> Iterator[Answering]:
    made = Answering(changed.set, address_of=lambda item: f"127.0.0.1:{health}")
    yield made
    made.close()


def test_a_pod_that_answers_takes_calls_before_the_kubelet_reports_it_ready(answering: Answering, changed: threading.Event) -> None:
    item = pod("a")
    assert endpoint_of(item, answering) is None
    answering.on_view(ClusterView(pods={"w": [item]}))
    assert changed.wait(5) and "a-0" in answering
    endpoint = endpoint_of(item, answering)
    assert endpoint is not None and endpoint.id == "a-0" and not endpoint.draining


def test_the_kubelet_decides_once_it_has_reported_the_pod_ready(answering: Answering, changed: threading.Event) -> None:
    answering.on_view(ClusterView(pods={"w": [pod("a")]}))
    assert changed.wait(5)
    answering.on_view(ClusterView(pods={"w": [pod("a", ready=True)]}))
    assert "a-0" not in answering
    changed.clear()
    answering.on_view(ClusterView(pods={"w": [pod("a"), pod("b")]}))
    assert changed.wait(5) and "b-0" in answering and "a-0" not in answering


def test_a_restarted_container_is_checked_again(answering: Answering, changed: threading.Event) -> None:
    answering.on_view(ClusterView(pods={"w": [pod("a", ready=True)]}))
    answering.on_view(ClusterView(pods={"w": [pod("a", restarts=1)]}))
    assert changed.wait(5) and "a-1" in answering


def test_only_running_containers_are_checked(changed: threading.Event) -> None:
    asked: list[str] = []
    made = Answering(changed.set, address_of=lambda item: asked.append(item["metadata"]["name"]) or None)  # type: ignore[func-returns-value]
    made.on_view(ClusterView(pods={"w": [pod("a", running=False), pod("b", ready=True), pod("c")]}))
    made.close()
    assert asked == ["c"]
