"""`sless serve` with SLESS_BACKEND=kubernetes on the stand-in cluster, with the chart's RBAC rules only."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from sless.domain.durations import Durations
from sless.kube.names import cluster_namespace_of
from tests.kube.chart_rights import Rights, rights_of_chart
from tests.kube.cluster import KubeCluster, running_cluster
from tests.services.bursts import burst
from tests.services.product import Product, Tenant, new_place, wait_until

pytestmark = pytest.mark.xdist_group("kubernetes")
POD_NAMESPACE = "sless"
SLOW = "import os, time\ndef handle(event):\n    time.sleep(event.get('sec', 0))\n    return os.uname().nodename + str(os.getpid())\n"
HELLO = "def handle(event):\n    print('called with', event)\n    return {'hello': event}\n"
USER = "sless"
SHORT = Durations(empty_namespace_sec=2.0, cache_sec=2.0, refused_run_sec=4.0)
REGISTRY_SECRETS = [
    {
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name, "namespace": POD_NAMESPACE},
        "data": {".dockerconfigjson": base64.b64encode(json.dumps({"auths": {"registry.test": {"username": name}}}).encode()).decode()},
    }
    for name in ("push", "pull")
]  # fmt: skip
UNUSED = {
    ("patch", "", "pods"): "an unresponsive instance: its ReplicaSet creates another one before it is deleted",
    ("delete", "", "configmaps"): "code that no version has needed for a quarter of an hour",
}
"""Permissions that these tests do not use, and what needs them."""
MAYBE_USED = {("delete", "", "pods")}
"""For an unresponsive instance, and for a pod that the cluster has not deleted yet although its Deployment is gone."""


@dataclass
class World:
    cluster: KubeCluster
    product: Product

    def pods(self, tenant: Tenant) -> "list[dict[str, Any]]":
        return self.cluster.list("Pod", cluster_namespace_of(tenant.namespace))


@pytest.fixture(scope="module")
def rights() -> Rights:
    return rights_of_chart(POD_NAMESPACE, {"functions": {"ingress": {"host": "fn.test"}}})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, rights: Rights) -> Iterator[World]:
    with running_cluster() as cluster, new_place(tmp_path_factory.mktemp("kubernetes")) as place:
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": POD_NAMESPACE}})
        for secret in REGISTRY_SECRETS:
            cluster.create(secret)
        cluster.enforce(USER, rights.cluster, rights.local, rights.writable)
        product = Product(place, SHORT, **environ_of(cluster))
        try:
            yield World(cluster, product.start())
        finally:
            product.close()


def environ_of(cluster: KubeCluster) -> dict[str, str]:
    return {
        "SLESS_BACKEND": "kubernetes", "SLESS_KUBECONFIG": str(cluster.kubeconfig), "SLESS_POD_NAMESPACE": POD_NAMESPACE,
        "SLESS_AUTH_MODE": "local", "SLESS_INGRESS_HOST": "fn.test", "SLESS_INTERNAL_URL": "http://sless.sless.svc:9090",
        "SLESS_REGISTRY_HOST": "registry.test", "SLESS_REGISTRY_SECRET": "push", "SLESS_REGISTRY_PULL_SECRET": "pull",
    }  # fmt: skip


def fetch(tenant: Tenant, path: str, **options: Any) -> requests.Response:
    return requests.get(tenant.product.url + path, timeout=60, **options)


def test_small_code_serves_in_seconds_and_calls_have_logs(world):
    tenant = world.product.tenant("ada")
    began = time.monotonic()
    path = tenant.deploy("hello", HELLO)
    assert time.monotonic() - began < 20
    answer = fetch(tenant, f"{path}/x?a=1")
    assert answer.json() == {"hello": {"a": "1"}}
    call = answer.headers["X-Request-Id"]

    def lines() -> list[str]:
        return [line["text"] for line in tenant.invocation("hello", call).get("logs", [])]

    wait_until(lambda: lines() == ["called with {'a': '1'}"], "the line of the call")
    assert "called with" in tenant.get("functions/hello/logs").text
    (pod,) = world.pods(tenant)
    assert pod["status"]["podIP"] in world.cluster.control("objects", kind="EndpointSlice")[0]["endpoints"][0]["addresses"]
    secrets = world.cluster.list("Secret", cluster_namespace_of(tenant.namespace))
    copies = [secret["data"] for secret in secrets if ".dockerconfigjson" in secret["data"]]
    assert copies == [REGISTRY_SECRETS[1]["data"]], "the pull secret, not the push secret"
    (ingress,) = world.cluster.list("Ingress", POD_NAMESPACE)
    assert ingress["spec"]["rules"][0]["host"] == f"hello-{tenant.namespace}.fn.test"


PRINTS = """import threading, time
print("imported")
def tick():
    while True:
        print("tick")
        time.sleep(0.2)
threading.Thread(target=tick, daemon=True).start()
def handle(event):
    return 1
"""


def test_output_outside_calls_is_in_the_log(world):
    """Without calls, sless reads the pod's log only on request and while a client follows it."""
    tenant = world.product.tenant("annie")
    tenant.deploy("alone", PRINTS)
    wait_until(lambda: "imported" in tenant.get("functions/alone/logs").text, "the line printed during the import", 30)
    ticks = 0
    with tenant.get("functions/alone/logs?follow=1&tail=0", stream=True) as answer:
        for line in answer.iter_lines():
            ticks += line.endswith(b"tick")
            if ticks >= 5:
                break
    assert ticks >= 5
    lines = tenant.get("functions/alone/logs").text.splitlines()
    assert len(lines) == len(set(lines)), "each line once"


def test_runs_and_jobs_return_their_results(world):
    tenant = world.product.tenant("grace")
    tenant.deploy("once", "def handle(event):\n    return event['n'] + 1\n", http=False)
    answer = tenant.post("functions/once/invoke", {"n": 41})
    assert (answer.status_code, answer.json()) == (200, 42)
    assert world.pods(tenant) == [] or all(pod["metadata"]["labels"]["sless.dev/role"] == "run" for pod in world.pods(tenant))
    ended = run_job(tenant, "good", "def handle(event):\n    return {'got': event}\n")
    assert (ended["phase"], ended["message"]) == ("Succeeded", '{"got": {"x": 1}}')
    ended = run_job(tenant, "bad", "def handle(event):\n    raise ValueError('no such thing')\n")
    assert ended["phase"] == "Failed" and ended["message"].startswith("no such thing")


def test_an_unschedulable_run_is_reported_despite_a_short_timeout(world):
    tenant = world.product.tenant("radia")
    tenant.deploy("short", HELLO, http=False, timeout_sec=1)
    labels = {"sless.dev/role": "run", "sless.dev/namespace": tenant.namespace}
    world.cluster.script("unschedulable", labels=labels, message="1 Insufficient memory")
    began = time.monotonic()
    answer = tenant.post("functions/short/invoke", {})
    assert "no node of the cluster can take the pod: 0/1 nodes are available" in answer.json()["error"], answer.text
    assert time.monotonic() - began < 30


def run_job(tenant: Tenant, name: str, code: str) -> dict[str, Any]:
    made = tenant.post("jobs", {"name": name, "runtime": "python3.11", "event_json": {"x": 1}, "run_id": 1})
    assert made.status_code == 201, made.text
    assert tenant.upload(name, code, "job").status_code in (200, 202)
    wait_until(lambda: tenant.get(f"jobs/{name}").json()["phase"] in ("Succeeded", "Failed"), f"job {name} ended", 60)
    found: dict[str, Any] = tenant.get(f"jobs/{name}").json()
    return found


def test_no_call_fails_while_a_new_version_goes_live(world):
    tenant = world.product.tenant("linus")
    path = tenant.deploy("rolled", version_source(1))
    failures, versions, stop = [], set(), threading.Event()

    def load() -> None:
        with requests.Session() as session:
            while not stop.is_set():
                answer = session.get(tenant.product.url + path, timeout=60)
                (versions.add(answer.json()) if answer.status_code == 200 else failures.append(answer.text))
                time.sleep(0.02)

    callers = [threading.Thread(target=load) for _ in range(4)]
    for caller in callers:
        caller.start()
    try:
        tenant.upload("rolled", version_source(2))
        tenant.settled("rolled", version=2)
        wait_until(lambda: 2 in versions, "version 2 answers", 60)
        wait_until(lambda: len(world.pods(tenant)) == 1, "the old pod is gone", 60)
    finally:
        stop.set()
        for caller in callers:
            caller.join(60)
    assert failures == [] and versions == {1, 2}


def version_source(number: int) -> str:
    return f"def handle(event):\n    return {number}\n"


def test_a_restart_after_kill_9_changes_nothing_in_the_cluster(world):
    """The new server applies each object once in case it was edited; unedited objects keep their version."""
    tenant = world.product.tenant("barbara")
    path = tenant.deploy("kept", HELLO)
    before = {pod["metadata"]["uid"] for pod in world.pods(tenant)}
    specs = versions_in(world, tenant)
    world.product.kill(master=True, worker=True)
    world.cluster.clear_requests()
    world.product.start()
    wait_until(lambda: fetch(tenant, path).status_code == 200, "it serves again")
    time.sleep(3)
    assert {pod["metadata"]["uid"] for pod in world.pods(tenant)} == before
    assert versions_in(world, tenant) == specs
    requests_made = world.cluster.requests(USER)
    writes = [item for item in requests_made if item["verb"] not in ("get", "list", "watch") and not removes_a_namespace(item)]
    assert {item["verb"] for item in writes} <= {"patch"} and len(writes) == len({item["path"] for item in writes}), writes


def removes_a_namespace(request: dict[str, Any]) -> bool:
    """Deletes the namespace of another test's tenant, which has nothing left in the cluster."""
    return (request["verb"], request["resource"]) == ("delete", "namespaces")


def versions_in(world: World, tenant: Tenant) -> set[tuple[str, str, str]]:
    """Generations or resource versions, which change when sless writes; the status of a Deployment may change by itself."""
    home = cluster_namespace_of(tenant.namespace)
    found = [
        (kind, item["metadata"]) for kind in ("Secret", "Service", "NetworkPolicy", "Deployment") for item in world.cluster.list(kind, home)
    ]
    return {(kind, item["name"], str(item.get("generation") or item["resourceVersion"])) for kind, item in found}


def test_an_api_outage_does_not_affect_callers(world):
    tenant = world.product.tenant("edsger")
    path = tenant.deploy("steady", HELLO)
    pods = {pod["metadata"]["uid"] for pod in world.pods(tenant)}
    world.cluster.away(6)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        assert fetch(tenant, path).status_code == 200
        assert tenant.get("functions/steady").json()["phase"] == "Ready"
        time.sleep(0.1)
    other = tenant.deploy("later", HELLO)
    assert fetch(tenant, other).status_code == 200
    assert pods <= {pod["metadata"]["uid"] for pod in world.pods(tenant)}


def test_an_exceeded_quota_is_reported(world):
    tenant = world.product.tenant("alan")
    tenant.create("big", memory_mb=8192)
    tenant.post("triggers", {"name": "big", "type": "http", "function_ref": "big"})
    tenant.upload("big", HELLO)
    wait_until(lambda: "quota" in (tenant.get("functions/big").json()["message"] or ""), "the quota in the message", 30)
    assert "memory" in tenant.get("functions/big").json()["message"]


def test_instances_follow_the_calls(world: World) -> None:
    tenant = world.product.tenant("scaling")
    path = tenant.deploy("burst", SLOW, idle_seconds=1, concurrency=25, max_instances=4)

    def is_idle() -> bool:
        return tenant.get("functions/burst").json()["ready_instances"] == 0 and not world.pods(tenant)

    wait_until(is_idle, "no pod is left", 40)
    deployment = world.cluster.list("Deployment", cluster_namespace_of(tenant.namespace))[0]
    assert deployment["spec"]["replicas"] == 0 and tenant.get("functions/burst").json()["phase"] == "Ready"
    answers = burst(tenant, path, 200, sec=0.5)
    assert [status for status, _ in answers] == [200] * 200
    assert 2 <= len({body for _, body in answers}) <= 4
    wait_until(is_idle, "no pod is left", 40)
    called = tenant.post(path, {})
    assert called.status_code == 200
    wait_until(lambda: len(tenant.get("functions/burst/invocations?limit=1").json()) == 1, "the call is recorded")
    assert tenant.get("functions/burst/invocations?limit=1").json()[0]["cold"] is True


@pytest.mark.slow
def test_deleting_a_namespace_cleans_up_and_every_permission_is_used(world, rights):
    tenant = world.product.tenant("donald")
    path = tenant.deploy("gone", HELLO)
    assert fetch(tenant, path).status_code == 200
    assert run_job(tenant, "ended", HELLO)["phase"] == "Succeeded"
    run_job_without_room(world, tenant)
    assert tenant.call("DELETE", f"/v1/namespaces/{tenant.namespace}", params={"confirm": tenant.namespace}).status_code == 202
    wait_until(lambda: world.cluster.find("Namespace", "", cluster_namespace_of(tenant.namespace)) is None, "the namespace is gone", 40)
    assert world.cluster.list("Ingress", POD_NAMESPACE, f"sless.dev/namespace={tenant.namespace}") == []
    requests_made = world.cluster.requests(USER)
    assert [item["path"] for item in requests_made if item["status"] == 403 and "quota" not in item["path"]] == []
    used = {(verb, item["group"], resource_of(item)) for item in requests_made for verb in (item["verb"], item["also"]) if verb}
    assert (rights.all() - used - MAYBE_USED) ^ UNUSED.keys() == set(), "rights of the chart that nothing uses, or exceptions that are used"


def resource_of(request: dict[str, Any]) -> str:
    return request["resource"] + (f"/{request['subresource']}" if request["subresource"] else "")


def run_job_without_room(world: World, tenant: Tenant) -> None:
    """The quota rejects the pod of a Job; sless asks the cluster for the reason."""
    tenant.post("jobs", {"name": "large", "runtime": "python3.11", "run_id": 1, "memory_mb": 8192})
    tenant.upload("large", HELLO, "job")
    wait_until(lambda: tenant.get("jobs/large").json()["phase"] == "Failed", "the job was refused", 60)
    assert "quota" in tenant.get("jobs/large").json()["message"]
