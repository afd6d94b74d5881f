"""The Kubernetes API refuses or hangs connections for a while (`make soak`: for more than a minute) while functions, runs and a build
are running and the desired state changes: no state changes because of the outage, and everything recovers."""

import base64
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from sless.kube.names import cluster_namespace_of
from tests.contract.builder_harness import wheel_of
from tests.integration.building_product import building_product
from tests.kube.cluster import KubeCluster
from tests.services.product import Product, Tenant, wait_until
from tests.services.registry import RegistryServer
from tests.services.s3 import S3Server

SOAK = "TEST_SOAK_MESSAGES" in os.environ
AWAY_SEC = 65 if SOAK else 5
pytestmark = [pytest.mark.slow, pytest.mark.timeout(6 * AWAY_SEC + 240)]
HELLO = "def handle(event):\n    return {'hello': event}\n"
SLEEPS = "import time\ndef handle(event):\n    time.sleep(float(event['sec']))\n    return event['sec']\n"
REQUIREMENTS = "--no-index\n--find-links ./wheels\ngreeting==1.0\n"
WHEEL = {"base64": base64.b64encode(wheel_of("greeting", "1.0", "N = 1\n")).decode()}
RECOVER_SEC = 60.0


@dataclass
class World:
    cluster: KubeCluster
    product: Product

    @contextmanager
    def away(self, how: str) -> Iterator[None]:
        """`refused`: the API port is closed while the cluster keeps working. `frozen`: connections hang and the cluster stands still."""
        began = time.monotonic()
        if how == "refused":
            self.cluster.away(AWAY_SEC)
        else:
            os.kill(self.cluster.pid, signal.SIGSTOP)
        try:
            yield
            time.sleep(max(0.0, began + AWAY_SEC - time.monotonic()))
        finally:
            if how == "frozen":
                os.kill(self.cluster.pid, signal.SIGCONT)


@pytest.fixture
def world(tmp_path: Path, registry_server: RegistryServer, s3_server: S3Server) -> Iterator[World]:
    with building_product(tmp_path, registry_server, s3_server, slow) as (cluster, product):
        yield World(cluster, product.start())


def slow(image: dict[str, Any]) -> dict[str, Any]:
    """A builder that takes longer than the outage."""
    return {**image, "entrypoint": ["sh", "-c", f'sleep {AWAY_SEC + 3}; exec "$0" "$@"', *image["entrypoint"]]}


@dataclass
class Watch:
    """Calls functions and reads the REST API inside the `with` block, and records the results."""

    tenant: Tenant
    calls: dict[str, str]
    """Paths to call repeatedly, with their expected body."""
    states: dict[str, str]
    """Paths below the namespace to read repeatedly, with the field to record."""
    failures: list[str] = field(default_factory=list)
    seen: dict[str, set[str]] = field(default_factory=dict)
    answered: int = 0

    def __enter__(self) -> "Watch":
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._call, self._read)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self) -> None:
        with requests.Session() as session:
            while not self._stop.wait(0.1):
                for path in self.calls:
                    answer = session.get(self.tenant.product.url + path, timeout=60)
                    self.answered += answer.status_code == 200
                    if answer.status_code != 200:
                        self.failures.append(f"{path}: {answer.status_code} {answer.text}")

    def _read(self) -> None:
        while not self._stop.wait(0.3):
            for path, key in list(self.states.items()):
                answer = self.tenant.get(path)
                state = answer.json().get(key) if answer.status_code == 200 else answer.text
                self.seen.setdefault(path, set()).add(str(state))


# Refused connections are also tested by test_kubernetes.
@pytest.mark.parametrize("how", ["refused", "frozen"] if SOAK else ["frozen"])
def test_an_api_outage_changes_no_state_and_all_recovers(world: World, how: str) -> None:
    tenant = world.product.tenant(f"edsger-{how}")
    steady = tenant.begin_deploy("steady", HELLO)
    long = tenant.begin_deploy("long", SLEEPS, timeout_sec=AWAY_SEC + 30)
    tenant.begin_deploy("once", SLEEPS, http=False, timeout_sec=AWAY_SEC + 30)
    tenant.begin_deploy("brief", SLEEPS, http=False, timeout_sec=4)
    for name in ("steady", "long", "once", "brief"):
        assert tenant.settled(name)["phase"] == "Ready"
    schedule = {"name": "minutes", "type": "cron", "function_ref": "brief", "schedule": "* * * * *", "event_json": {"sec": 1}}
    assert tenant.post("triggers", {**schedule, "pre_warm_seconds": 0}).status_code == 201
    pods = uids(world, tenant, "steady")

    tenant.create("built")
    tenant.upload("built", {"handler.py": HELLO, "requirements.txt": REQUIREMENTS, "wheels/greeting-1.0-py3-none-any.whl": WHEEL})
    wait_until(lambda: world.cluster.list("Pod", "default-builds") != [], "the builder runs", 60)
    calls = [tenant.invoke_later("once", {"sec": AWAY_SEC + 10})]
    job(tenant, "through", AWAY_SEC + 10, AWAY_SEC + 30)
    wait_until(lambda: tenant.get("jobs/through").json()["phase"] == "Running", "the job runs")
    calls.append(tenant.invoke_later("brief", {"sec": 2}))
    wait_until(lambda: running_pod(world, tenant, calls[1]), "the brief call runs", 30)
    for name in ("fresh", "quick"):
        tenant.create(name)
        tenant.post("triggers", {"name": name, "type": "http", "function_ref": name})
    tenant.upload("fresh", HELLO)
    # Ends while the API is unreachable; its time limit has passed when the API is back.
    job(tenant, "inside", 2.5, 5)
    wait_until(lambda: tenant.get("jobs/inside").json()["phase"] == "Running", "the short job runs")

    paths = ["functions/steady", "functions/long", "functions/built", "functions/fresh", "functions/quick", "jobs/through", "jobs/inside"]
    in_flight: list[requests.Response] = []
    caller = threading.Thread(target=lambda: in_flight.append(requests.get(f"{tenant.product.url}{long}?sec={AWAY_SEC + 1}", timeout=200)))
    with Watch(tenant, {steady: ""}, dict.fromkeys(paths, "phase")) as watch:
        caller.start()
        with world.away(how):
            time.sleep(1)
            tenant.upload("quick", HELLO)
            job(tenant, "later", 1, 5)
            watch.states["jobs/later"] = "phase"
            calls += [tenant.invoke_later(name, {"sec": 1}) for name in ("once", "brief", "steady")]
        caller.join()
        for name in ("built", "fresh", "quick"):
            assert tenant.settled(name, timeout_sec=RECOVER_SEC)["phase"] == "Ready"
        for name in ("through", "inside", "later"):
            ended = tenant.ended_job(name, RECOVER_SEC)
            assert ended["phase"] == "Succeeded", str(ended)
        names = ["once", "brief", "once", "brief", "steady"]
        for name, call in zip(names, calls, strict=True):
            found = tenant.ended_call(name, call, RECOVER_SEC)
            assert (found["status"], found["attempts"]) == ("succeeded", 1), str(found)
    assert watch.failures == [] and watch.answered > AWAY_SEC
    assert in_flight[0].status_code == 200
    assert {path: states for path, states in watch.seen.items() if "Failed" in str(states)} == {}
    assert watch.seen["functions/steady"] == watch.seen["functions/long"] == {"Ready"}
    assert uids(world, tenant, "steady") == pods
    for name in ("once", "brief", "steady"):
        found = tenant.get(f"functions/{name}/invocations?limit=1000").json()
        assert {call["status"] for call in found} <= {"succeeded", "running", "queued"}, found


def uids(world: World, tenant: Tenant, name: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.cluster.list("Pod", cluster_namespace_of(tenant.namespace), f"sless.dev/name={name}")}


def running_pod(world: World, tenant: Tenant, run_id: str) -> bool:
    pods = world.cluster.list("Pod", cluster_namespace_of(tenant.namespace), f"sless.dev/run={run_id}")
    return any((pod.get("status") or {}).get("phase") == "Running" for pod in pods)


def job(tenant: Tenant, name: str, sec: float, timeout_sec: int) -> None:
    made = tenant.post("jobs", {"name": name, "runtime": "python3.11", "event_json": {"sec": sec}, "run_id": 1, "timeout_sec": timeout_sec})
    assert made.status_code == 201, made.text
    assert tenant.upload(name, SLEEPS, "job").status_code in (200, 202)
