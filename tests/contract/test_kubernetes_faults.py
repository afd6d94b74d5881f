"""The Kubernetes backend on a faulty cluster: unreachable, slow, full, half deleted, tidied up by hand."""

import contextlib
import http.client
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sless.domain.durations import Durations
from sless.domain.model import CallStatus, CallTrigger, Kind
from sless.domain.ports import BackendUnavailable, Deployment, Revision, RunSpec
from sless.ids import new_id
from sless.kube.names import ROLE_BUILD, cluster_namespace_of, labels_of
from tests.contract.backend_harness import wait_until
from tests.contract.kube_harness import KubeHarness
from tests.kube.cluster import KubeCluster
from tests.kube.pods import CRASH_BACKOFF_SEC

HELLO = "def handle(event):\n    return {'hello': event}\n"
WRITES = {"create", "patch", "update", "delete", "deletecollection"}


QUICK = Durations(cache_sec=0.5, idle_observe_sec=0.5, empty_namespace_sec=1.0, refused_run_sec=4.0)


@pytest.fixture
def harness(kube_cluster: KubeCluster) -> Iterator[KubeHarness]:
    harness = KubeHarness(QUICK, kubeconfig=kube_cluster.kubeconfig)
    yield harness
    kube_cluster.set_faults(clear=True)
    harness.close()


def built(harness: KubeHarness, **fields) -> Revision:
    """A revision with scripted pods, so that hundreds of them are cheap."""
    given = {
        "workload_id": new_id(), "namespace": harness.namespace, "name": "hello", "kind": Kind.FUNCTION, "version": 1, "timeout_sec": 5,
        "runtime": "python3.11", "entrypoint": "handler.handle", "code_key": "", "artifact": "scripted:1", "memory_mb": 64,
    }  # fmt: skip
    return Revision(**{**given, **fields})


def writes(cluster: KubeCluster) -> list[dict]:
    return [request for request in cluster.requests() if request["verb"] in WRITES]


def observed(harness: KubeHarness, revision: Revision):
    with contextlib.suppress(BackendUnavailable):
        return harness.backend.observe().get(revision.workload_id)
    return None


def await_views(harness: KubeHarness, number: int) -> None:
    """Waits for this many observations of the cluster."""
    for _ in range(number):
        harness.backend._observer.refresh(0.0, 5.0)


# --- nothing to do ---


def test_a_hundred_ticks_without_a_change_write_nothing(harness, kube_cluster):
    revision = harness.python(HELLO, env={"B": "2", "A": "1"})
    harness.deploy(revision, generation=2)
    await_views(harness, 3)
    kube_cluster.clear_requests()
    again = replace(revision, env={"A": "1", "B": "2"})
    for _ in range(100):
        harness.backend.observe()
        harness.backend.keep_namespaces([harness.namespace])
        harness.backend.apply(Deployment(revision=again, replicas=1, generation=2))
    await_views(harness, 6)
    assert kube_cluster.requests() and writes(kube_cluster) == []


@pytest.mark.parametrize("functions", [30, 200] if "TEST_SOAK_MESSAGES" in os.environ else [30])
def test_many_functions_cost_no_more_calls_than_one(kube_cluster, functions):
    harness = KubeHarness(QUICK, kubeconfig=kube_cluster.kubeconfig)
    try:
        many_functions(harness, kube_cluster, functions)
    finally:
        harness.close()


def many_functions(harness: KubeHarness, kube_cluster: KubeCluster, functions: int) -> None:
    kube_cluster.script("ready", image="scripted")
    tenants_of = [f"{harness.namespace[:14]}{number}" for number in range(functions // 10)]
    harness.backend.keep_namespaces(tenants_of)
    revisions = [built(harness, name=f"f{number}", namespace=tenants_of[number % len(tenants_of)]) for number in range(functions)]
    for revision in revisions:
        harness.apply(revision)
    ids = {revision.workload_id for revision in revisions}

    def all_ready() -> bool:
        with contextlib.suppress(BackendUnavailable):
            return {key for key, seen in harness.backend.observe().items() if seen.generation == 1} == ids
        return False

    wait_until(all_ready, "all ready", 180)
    await_views(harness, 2)
    kube_cluster.clear_requests()
    before = harness.backend._observer._listed_at
    await_views(harness, 1)
    seen = kube_cluster.requests()
    assert harness.backend._observer._listed_at > before
    assert {request["verb"] for request in seen} <= {"list", "get"}
    per_look = Counter(request["resource"] for request in seen)
    # More observations than the one we waited for may have started; each lists every kind once.
    assert len(seen) <= 10 * per_look["deployments"], per_look


# --- deleted objects come back ---


BESIDE = ("Secret", "Service", "ConfigMap", "NetworkPolicy", "ResourceQuota", "LimitRange", "ServiceAccount")


@pytest.mark.parametrize("kinds", [BESIDE, ("Deployment",), ("Pod",)], ids=lambda kinds: kinds[0])
def test_deleted_objects_come_back(harness, kube_cluster, kinds):
    revision = harness.python(HELLO, env={"A": "1"})
    harness.deploy(revision)
    home = cluster_namespace_of(harness.namespace)
    before = {kind: uids_of(kube_cluster, kind, home) for kind in kinds}
    assert all(before.values())
    for kind, names in before.items():
        for name in names:
            kube_cluster.delete(kind, home, name)

    def back() -> bool:
        tick(harness, revision)
        found = {kind: uids_of(kube_cluster, kind, home) for kind in kinds}
        return all(len(found[kind]) == len(names) and not {*found[kind].values()} & {*names.values()} for kind, names in before.items())

    wait_until(back, "all of them are new objects", 20)
    wait_until(lambda: tick(harness, revision) and harness.endpoints(revision), "ready again", 15)
    assert harness.call(harness.endpoints(revision)[0]) == {"hello": {}}


def test_a_manually_deleted_namespace_comes_back_complete(harness, kube_cluster):
    revision = harness.python(HELLO)
    harness.deploy(revision)
    kube_cluster.delete("Namespace", "", cluster_namespace_of(harness.namespace))
    wait_until(lambda: tick(harness, revision) and not harness.endpoints(revision), "gone")
    wait_until(lambda: tick(harness, revision) and harness.endpoints(revision), "back", 40)
    assert harness.call(harness.endpoints(revision)[0]) == {"hello": {}}


def test_the_pull_secret_follows_its_source(kube_cluster):
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": "registry", "namespace": "default"}}
    kube_cluster.apply({**secret, "data": {"a": "MQ=="}})
    harness = KubeHarness(QUICK, kubeconfig=kube_cluster.kubeconfig, registry_pull_secret="registry", pod_namespace="default")
    try:
        harness.deploy(harness.python(HELLO))
        home = cluster_namespace_of(harness.namespace)
        assert kube_cluster.get("Secret", home, "sless-pull")["data"] == {"a": "MQ=="}
        kube_cluster.apply({**secret, "data": {"b": "Mg=="}})
        wait_until(lambda: can_see(harness) and kube_cluster.get("Secret", home, "sless-pull")["data"] == {"b": "Mg=="}, "the new one", 15)
    finally:
        harness.close()


def test_only_our_own_namespaces_without_workloads_are_deleted(harness, kube_cluster):
    revision = harness.python(HELLO)
    harness.deploy(revision)
    home = cluster_namespace_of(harness.namespace)
    labels = {"app.kubernetes.io/managed-by": "sless", "sless.dev/installation": "other", "sless.dev/role": "tenant"}
    kube_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sless-fn-other", "labels": labels}})
    builds = {"name": "builds", "labels": labels_of(harness.installation, ROLE_BUILD)}
    kube_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": builds})
    harness.backend.remove(revision.workload_id)
    harness.backend.keep_namespaces([])

    def gone() -> bool:
        harness.observed(revision)
        return kube_cluster.find("Namespace", "", home) is None

    wait_until(gone, "the namespace gone", 40)
    await_views(harness, 4)
    for other in ("sless-fn-other", "builds"):
        assert not kube_cluster.get("Namespace", "", other)["metadata"].get("deletionTimestamp")


def test_a_namespace_claimed_by_two_installations_belongs_to_the_first(harness, kube_cluster):
    """A subject has the same namespace in both: the second must neither change nor delete the first one's objects."""
    revision = harness.python(HELLO)
    harness.deploy(revision)
    home = cluster_namespace_of(harness.namespace)
    before = kube_cluster.get("Namespace", "", home)["metadata"]
    other = KubeHarness(QUICK, kubeconfig=kube_cluster.kubeconfig)
    try:
        other.namespace = harness.namespace
        words = f"namespace {home} belongs to another installation of sless ({harness.installation}; this one is {other.installation})"
        theirs = other.python(HELLO)
        wait_until(lambda: other.apply(theirs) or ((seen := observed(other, theirs)) and words in seen.message), "reported", 10)
        assert not kube_cluster.list("Deployment", home, f"sless.dev/installation={other.installation}")
        assert kube_cluster.get("Namespace", "", home)["metadata"]["labels"] == before["labels"]
        other.backend.remove(theirs.workload_id)
        other.backend.keep_namespaces([])
        await_views(other, 6)
        assert kube_cluster.get("Namespace", "", home)["metadata"]["uid"] == before["uid"]
        assert harness.call(harness.endpoints(revision)[0]) == {"hello": {}}
    finally:
        other.backend.close()
        shutil.rmtree(other.root)


# --- API faults ---


def test_an_unreachable_api_changes_nothing(harness, kube_cluster):
    revision = harness.python(HELLO)
    (endpoint,) = harness.deploy(revision)
    kube_cluster.away(4)
    wait_until(lambda: not can_see(harness), "blind")
    with pytest.raises(BackendUnavailable):
        harness.backend.apply(Deployment(revision=replace(revision, version=2), replicas=1, generation=2))
    with pytest.raises(BackendUnavailable):
        harness.backend.observe_runs()
    assert harness.call(endpoint) == {"hello": {}}
    wait_until(lambda: can_see(harness), "seen again", 20)
    assert harness.endpoints(revision) == [endpoint]
    assert harness.observed(revision).generation == 1


def test_after_an_outage_nothing_times_out_for_the_duration_of_the_outage(harness, kube_cluster):
    harness.deploy(harness.python(HELLO))
    kube_cluster.away(3)
    wait_until(lambda: not can_see(harness), "blind")
    wait_until(lambda: can_see(harness), "seen again", 20)
    assert not harness.backend._observer.view().settled
    wait_until(lambda: can_see(harness) and harness.backend._observer.view().settled, "settled", 20)


def test_a_run_started_during_an_api_outage_runs_afterwards(harness, kube_cluster):
    revision = harness.python(HELLO)
    harness.deploy(revision)
    kube_cluster.away(3)
    _, ended, results = harness.start_run(revision, 7)
    assert ended.wait(30)
    assert results[0].status is CallStatus.SUCCEEDED


@pytest.mark.parametrize("fault", [{"status": 409}, {"status": 503, "after": True}], ids=str)
def test_a_failed_write_is_retried(harness, kube_cluster, fault):
    revision = harness.python(HELLO)
    kube_cluster.fault(times=2, verbs=["patch", "create"], resources=["deployments", "secrets", "jobs"], **fault)
    wait_until(lambda: tick(harness, revision) and harness.endpoints(revision), "ready", 30)
    kube_cluster.fault(times=2, verbs=["patch", "create"], resources=["jobs", "secrets"], **fault)
    assert harness.run(revision, 1).status is CallStatus.SUCCEEDED


def test_a_run_whose_start_got_no_response_runs_once(harness, kube_cluster):
    revision = harness.python(HELLO)
    harness.deploy(revision)
    kube_cluster.clear_requests()
    kube_cluster.fault(503, after=True, times=1, verbs=["create"], resources=["jobs"])
    assert harness.run(revision, 1).status is CallStatus.SUCCEEDED
    asked = [(request["verb"], request["status"]) for request in kube_cluster.requests() if request["resource"] == "jobs"]
    assert [verb for verb, _ in asked if verb in WRITES] == ["create"], asked


def test_a_slow_api_does_not_block_the_caller(harness, kube_cluster):
    revision = harness.python(HELLO)
    kube_cluster.fault(times=5, delay_sec=3.0)
    for call in (lambda: harness.apply(revision), lambda: harness.start_run(revision), lambda: harness.backend.remove("unknown")):
        began = time.perf_counter()
        call()
        assert time.perf_counter() - began < 1.5
    wait_until(lambda: tick(harness, revision) and harness.endpoints(revision), "ready", 30)


def test_a_half_deleted_namespace_is_waited_for_and_reported(harness, kube_cluster):
    revision = harness.python(HELLO)
    harness.deploy(revision)
    kube_cluster.set_faults(stall_namespaces=True)
    kube_cluster.delete("Namespace", "", cluster_namespace_of(harness.namespace))
    kube_cluster.delete("Deployment", cluster_namespace_of(harness.namespace), "hello")
    words = "is still being deleted"
    wait_until(lambda: tick(harness, revision) and (seen := observed(harness, revision)) and words in seen.message, "reported", 30)
    kube_cluster.set_faults(clear=True)
    wait_until(lambda: tick(harness, revision) and harness.endpoints(revision), "back", 60)


def test_an_instance_that_has_served_does_not_wait_for_the_back_off(harness, kube_cluster):
    kube_cluster.options(crash_backoff_sec=300)
    try:
        revision = harness.python("import os\ndef handle(event):\n    os._exit(3)\n")
        (endpoint,) = harness.deploy(revision)
        for _ in range(2):
            with pytest.raises((http.client.HTTPException, OSError)):
                harness.call(endpoint)
            gone = endpoint.id
            (endpoint,) = wait_until(lambda gone=gone: [one for one in harness.endpoints(revision) if one.id != gone], "a new instance", 25)
    finally:
        kube_cluster.options(crash_backoff_sec=CRASH_BACKOFF_SEC)


# --- messages ---


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ({"act": "pull_error", "message": "manifest unknown"}, "image scripted:1 cannot be pulled: "),
        ({"act": "unschedulable", "message": "1 Insufficient memory"}, "no node of the cluster can take the pod: "),
        ({"act": "oom"}, "out of memory: over the limit of 64 MB"),
        ({"act": "crash", "exit_code": 3, "log": "last words\n"}, "function exited with code 3"),
    ],
    ids=lambda value: value["act"] if isinstance(value, dict) else "",
)
def test_the_reason_for_missing_instances_is_reported(harness, kube_cluster, act, words):
    kube_cluster.script(image="scripted", **act)
    revision = built(harness)
    harness.apply(revision)
    wait_until(lambda: (seen := observed(harness, revision)) and seen.failing and seen.message.startswith(words), "reported", 20)
    if act.get("log"):
        assert observed(harness, revision).message.endswith("\nlast words")


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ({"act": "pull_error"}, "image scripted:1 cannot be pulled: "),
        ({"act": "unschedulable", "message": "1 Insufficient memory"}, "no node of the cluster can take the pod: "),
        ({"act": "oom"}, "out of memory: over the limit of 64 MB"),
        ({"act": "crash", "exit_code": 3, "log": "last words\n"}, "function exited with code 3\nlast words"),
    ],
    ids=lambda value: value["act"] if isinstance(value, dict) else "",
)
def test_the_reason_for_a_failed_run_is_reported(harness, kube_cluster, act, words):
    kube_cluster.script(image="scripted", **act)
    run = harness.run(built(harness))
    assert run.status is CallStatus.FAILED
    assert run.message.startswith(words), run.message


def test_a_full_quota_is_reported(kube_cluster):
    harness = KubeHarness(QUICK, kubeconfig=kube_cluster.kubeconfig, tenant_memory="100Mi")
    try:
        kube_cluster.script("ready", image="scripted")
        revision = built(harness)
        harness.apply(revision, replicas=2)
        words = "the cluster refuses a new pod: the quota of the namespace is used up (memory: 64Mi more asked, 64Mi of 100Mi in use)"

        def reported() -> bool:
            seen = observed(harness, revision)
            return seen is not None and seen.message == words and len(seen.endpoints) == 1

        wait_until(reported, lambda: str(observed(harness, revision)), 20)
        run = harness.run(built(harness))
        assert (run.status, run.message) == (CallStatus.FAILED, words)
    finally:
        harness.close()


def test_an_event_too_large_for_an_object_is_refused(harness):
    run = harness.run(harness.python(HELLO), "x" * 800_000)
    assert run.status is CallStatus.FAILED
    assert "event is 800002 bytes, over the limit of 716800" in run.message


# --- runs ---


def test_a_run_fails_when_its_job_is_deleted(harness, kube_cluster):
    revision = harness.python("import time\ndef handle(event):\n    time.sleep(60)\n", timeout_sec=60)
    run_id, ended, results = harness.start_run(revision)
    home = cluster_namespace_of(harness.namespace)
    wait_until(lambda: kube_cluster.find("Pod", home, "") and kube_cluster.list("Pod", home), "its pod")
    await_views(harness, 2)
    kube_cluster.delete("Job", home, f"run-{run_id}", propagationPolicy="Background")
    assert ended.wait(20)
    assert (results[0].status, results[0].message) == (CallStatus.FAILED, "the run's Job was deleted from the cluster")


def test_a_removed_run_can_start_again_under_its_id(harness):
    revision = harness.python(HELLO)
    first = harness.run(revision, 1)
    ended = threading.Event()
    spec = RunSpec(id=first.id, revision=revision, event="2", request_id="r", trigger=CallTrigger.JOB)
    harness.backend.remove_run(first.id)
    results = []
    harness.backend.start_run(spec, lambda run: (results.append(run), ended.set()))
    assert ended.wait(30)
    assert results[0].status is CallStatus.SUCCEEDED


def test_log_lines_of_a_run_arrive_while_it_runs(harness):
    revision = harness.python("import time\ndef handle(event):\n    print('begun')\n    time.sleep(20)\n", timeout_sec=30)
    run_id, _, _ = harness.start_run(revision)
    wait_until(lambda: [line.text for line in harness.lines if line.invocation_id == run_id] == ["begun"], "its line", 15)
    harness.backend.remove_run(run_id)


def test_a_large_result_is_complete(kube_cluster):
    harness = KubeHarness(QUICK, kubeconfig=kube_cluster.kubeconfig)
    try:
        revision = harness.python("def handle(event):\n    return 'x' * 1_500_000\n", kind=Kind.FUNCTION)
        run = harness.run(revision)
        assert run.outcome is not None and len(run.outcome.body) >= 1_500_000
    finally:
        harness.close()


# --- helpers ---


def can_see(harness: KubeHarness) -> bool:
    with contextlib.suppress(BackendUnavailable):
        harness.backend.observe()
        return True
    return False


def tick(harness: KubeHarness, revision: Revision) -> bool:
    """Reconciles once: applies the revision unless its generation is observed."""
    with contextlib.suppress(BackendUnavailable):
        harness.backend.keep_namespaces([harness.namespace])
        seen = harness.backend.observe().get(revision.workload_id)
        if seen is None or seen.generation != 1:
            harness.apply(revision)
    return True


def uids_of(cluster: KubeCluster, kind: str, namespace: str) -> dict[str, str]:
    """UIDs by name of our objects that are not being deleted."""
    found = [item["metadata"] for item in cluster.list(kind, namespace, "app.kubernetes.io/managed-by=sless")]
    return {item["name"]: item["uid"] for item in found if not item.get("deletionTimestamp")}
