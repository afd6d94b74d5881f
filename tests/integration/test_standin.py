"""The stand-in cluster that other tests rely on: controllers, kubelet, logs, paging, watches, faults."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.kube.cluster import KubeCluster, KubeRefused

NS = "tenant"
Object = dict[str, Any]


@pytest.fixture
def cluster(kube_cluster: KubeCluster) -> KubeCluster:
    kube_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    return kube_cluster


def pod_spec(*command: str, image: str = "busybox:1", **fields: Any) -> Object:
    return {"containers": [{"name": "main", "image": image, **({"command": list(command)} if command else {}), **fields}]}


def make_pod(cluster: KubeCluster, spec: Object, name: str = "p", **labels: str) -> Object:
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS, "labels": labels}, "spec": spec}
    return cluster.create(item)


def deployment(replicas: int = 1, image: str = "scripted:1", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod_spec(image=image)}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": NS},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "d"}}, "template": template, **spec},
    }  # fmt: skip


def job(**spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", **pod_spec(image="scripted:1")}}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": NS},
        "spec": {"backoffLimit": 0, "template": template, **spec},
    }  # fmt: skip


def container(cluster: KubeCluster, name: str = "p") -> Object:
    found: list[Object] = cluster.get("Pod", NS, name)["status"].get("containerStatuses") or [{}]
    return found[0]


def waiting(cluster: KubeCluster, name: str = "p") -> str:
    return str(container(cluster, name).get("state", {}).get("waiting", {}).get("reason", ""))


def condition(item: Object, type_: str) -> Object:
    return next((found for found in item.get("status", {}).get("conditions") or [] if found["type"] == type_), {})


def events(cluster: KubeCluster, reason: str) -> "list[str]":
    return [event["message"] for event in cluster.list("Event", NS) if event["reason"] == reason]


# --- real processes ---------------------------------------------------------------------------------------------------------------------


def test_a_container_has_its_volumes_environment_and_address(cluster, tmp_path):
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": NS}, "data": {"greeting": "hello"}})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": NS}, "stringData": {"WORD": "sesame $(X)"}}
    cluster.create(secret)
    spec = pod_spec(
        "sh", "-c", "cat /etc/given/greeting; echo; echo $WORD $SEEN $PRICE $AT; touch /tmp/mine && ls /tmp; exec sleep 60",
        env=[
            {"name": "X", "value": "x"}, {"name": "SEEN", "value": "$(X)y"}, {"name": "PRICE", "value": "$$5"},
            {"name": "AT", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        envFrom=[{"secretRef": {"name": "s"}}], volumeMounts=[{"name": "v", "mountPath": "/etc/given"}],
    )  # fmt: skip
    make_pod(cluster, {**spec, "volumes": [{"name": "v", "configMap": {"name": "c"}}]})
    cluster.wait_until(lambda: container(cluster).get("ready") and "mine" in cluster.log(NS, "p"), "it runs")
    address = cluster.get("Pod", NS, "p")["status"]["podIP"]
    assert cluster.log(NS, "p") == f"hello\nsesame $(X) xy $5 {address}\nmine\n"
    assert cluster.log(NS, "p", tailLines="1") == "mine\n"
    assert cluster.log(NS, "p", timestamps="true").splitlines()[0].endswith("Z hello")


def test_a_pod_waits_for_a_missing_secret(cluster):
    make_pod(cluster, pod_spec("sleep", "60", envFrom=[{"secretRef": {"name": "later"}}]))
    cluster.wait_until(lambda: waiting(cluster) == "CreateContainerConfigError", "the missing Secret is reported")
    assert container(cluster)["state"]["waiting"]["message"] == 'secret "later" not found'
    cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "later", "namespace": NS}})
    cluster.wait_until(lambda: container(cluster)["ready"], "it runs")


def test_a_crashed_container_restarts_with_back_off_and_keeps_its_log(cluster):
    cluster.options(crash_backoff_sec=0.3)
    make_pod(cluster, pod_spec("sh", "-c", "echo run $$; exit 3"))
    cluster.wait_until(lambda: waiting(cluster) == "CrashLoopBackOff", "back-off")
    restarted = cluster.wait_until(lambda: (found := container(cluster))["restartCount"] >= 2 and found, "two restarts")
    ended = restarted["lastState"].get("terminated") or restarted["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")
    assert cluster.log(NS, "p", previous="true").startswith("run ")
    assert events(cluster, "BackOff")


def test_a_container_over_its_memory_limit_is_oom_killed(cluster):
    source = "x = bytearray(200 * 2**20); import time; time.sleep(60)"
    image = {"entrypoint": [os.path.realpath("/proc/self/exe"), "-S", "-c", source]}
    cluster.add_image("hungry", image)
    make_pod(cluster, {"restartPolicy": "Never", **pod_spec(image="hungry:1", resources={"limits": {"memory": "64Mi"}})})
    cluster.wait_until(lambda: cluster.get("Pod", NS, "p")["status"]["phase"] == "Failed", "it ended")
    assert {key: container(cluster)["state"]["terminated"][key] for key in ("exitCode", "reason")} == {
        "exitCode": 137,
        "reason": "OOMKilled",
    }


def test_the_grace_period_is_respected_and_enforced(cluster):
    stubborn = "trap '' TERM; while :; do sleep 0.1; done"
    polite = "trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done"
    hook = {"preStop": {"sleep": {"seconds": 1}}}
    make_pod(cluster, {"terminationGracePeriodSeconds": 1, **pod_spec("sh", "-c", stubborn)}, "stubborn")
    make_pod(cluster, {"terminationGracePeriodSeconds": 20, **pod_spec("sh", "-c", polite, lifecycle=hook)}, "polite")
    cluster.wait_until(lambda: container(cluster, "stubborn").get("ready") and container(cluster, "polite").get("ready"), "both run")
    began = time.monotonic()
    for name in ("stubborn", "polite"):
        cluster.delete("Pod", NS, name)
        assert cluster.get("Pod", NS, name)["metadata"]["deletionTimestamp"]
    cluster.wait_until(lambda: not cluster.list("Pod", NS), "both gone")
    assert 1 <= time.monotonic() - began < 8, "both ended before the longer grace period"


def test_a_failed_readiness_probe_keeps_a_container_unready(cluster):
    source = (
        "import http.server, os, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        good = os.path.exists('/tmp/good') and self.headers['X-Who'] == 'kubelet'\n"
        "        self.send_response(200 if good else 503); self.end_headers()\n"
        "    def log_message(self, *_): pass\n"
        "http.server.HTTPServer((os.environ['SLESS_ADDRESS'], 8080), H).serve_forever()\n"
    )
    cluster.add_image("probed", {"entrypoint": [os.path.realpath("/proc/self/exe"), "-c", source]})
    get = {"path": "/", "port": "http", "httpHeaders": [{"name": "X-Who", "value": "kubelet"}]}
    probe = {"httpGet": get, "periodSeconds": 1, "failureThreshold": 1}
    make_pod(cluster, pod_spec(image="probed:1", ports=[{"name": "http", "containerPort": 8080}], readinessProbe=probe))
    cluster.wait_until(lambda: any("statuscode: 503" in text for text in events(cluster, "Unhealthy")), "a probe has failed")
    assert container(cluster)["state"].get("running") and not container(cluster)["ready"]


def test_kill_9_of_the_server_stops_all_containers():
    cluster = KubeCluster()
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})
    make_pod(cluster, pod_spec("sh", "-c", "echo $$; sleep 61 & wait"))
    pid = cluster.wait_until(lambda: container(cluster).get("ready") and cluster.log(NS, "p").strip(), "it runs")
    os.kill(cluster.pid, signal.SIGKILL)
    cluster.close()
    cluster.wait_until(lambda: not Path(f"/proc/{pid}").exists() and not cluster.folder.exists(), "the process and its folder are gone")


# --- by script ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "is_observed"),
    [
        (
            "pull_error",
            lambda cluster: waiting(cluster) == "ImagePullBackOff" and any("not found" in text for text in events(cluster, "Failed")),
        ),
        ("unschedulable", lambda cluster: condition(cluster.get("Pod", NS, "p"), "PodScheduled").get("reason") == "Unschedulable"),
        ("oom", lambda cluster: container(cluster).get("lastState", {}).get("terminated", {}).get("reason") == "OOMKilled"),
        ("never_ready", lambda cluster: container(cluster).get("started") and not container(cluster)["ready"]),
        ("ready", lambda cluster: container(cluster).get("ready")),
        ("pending", lambda cluster: waiting(cluster) == "ContainerCreating"),
    ],
)
def test_pods_follow_their_script(cluster, act, is_observed):
    cluster.script(act, image="scripted")
    make_pod(cluster, pod_spec(image="scripted:1"))
    cluster.wait_until(lambda: is_observed(cluster), act)


def test_a_full_node_takes_no_more_pods(cluster):
    cluster.script("ready", image="scripted")
    cluster.node(allocatable={"memory": "1Gi"})
    resources = {"resources": {"limits": {"memory": "600Mi"}}}
    make_pod(cluster, pod_spec(image="scripted:1", **resources), "first")
    make_pod(cluster, pod_spec(image="scripted:1", **resources), "second")
    assert "1 Insufficient memory" in condition(cluster.get("Pod", NS, "second"), "PodScheduled")["message"]
    cluster.delete("Pod", NS, "first", gracePeriodSeconds=0)
    cluster.wait_until(lambda: container(cluster, "second").get("ready"), "there is room now")


# --- controllers --------------------------------------------------------------------------------------------------------------------------


def test_a_rollout_keeps_the_desired_number_of_ready_pods(cluster):
    cluster.script("ready", image="scripted:1")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    cluster.apply(deployment(3, strategy=strategy))
    cluster.wait_until(lambda: cluster.get("Deployment", NS, "d")["status"].get("readyReplicas") == 3, "three ready")
    cluster.script("ready", image="scripted:2", after_sec=0.1)
    least, most = [], []
    cluster.apply(deployment(3, "scripted:2", strategy=strategy))

    def rolled() -> bool:
        pods = [pod for pod in cluster.list("Pod", NS) if not pod["metadata"].get("deletionTimestamp")]
        least.append(sum(condition(pod, "Ready").get("status") == "True" for pod in pods))
        most.append(len(pods))
        return {pod["spec"]["containers"][0]["image"] for pod in pods} == {"scripted:2"} and len(pods) == 3

    cluster.wait_until(rolled, "rolled")
    assert min(least) >= 3 and max(most) <= 4


def test_a_quota_rejects_pods_but_not_the_deployment(cluster):
    cluster.script("ready", image="scripted")
    cluster.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": NS}, "spec": {"hard": {"pods": "1"}}}
    )
    cluster.apply(deployment(2))
    failure = cluster.wait_until(lambda: condition(cluster.get("Deployment", NS, "d"), "ReplicaFailure"), "the failure is reported")
    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in failure["message"]
    assert cluster.get("Deployment", NS, "d")["status"]["readyReplicas"] == 1
    (before,), refused = cluster.list("ReplicaSet", NS), refusals(cluster)
    cluster.wait_until(lambda: refusals(cluster) >= refused + 2, "two more attempts")
    (after,) = cluster.list("ReplicaSet", NS)
    assert after == before, "each change of its status would cause another attempt, without a pause"
    cluster.delete("ResourceQuota", NS, "q")
    cluster.wait_until(lambda: cluster.get("Deployment", NS, "d")["status"].get("readyReplicas") == 2, "the second pod")
    assert not condition(cluster.get("Deployment", NS, "d"), "ReplicaFailure")


def refusals(cluster):
    return sum(event["count"] for event in cluster.list("Event", NS) if event["reason"] == "FailedCreate")


def test_owned_objects_are_deleted_with_their_owner(cluster):
    cluster.script("ready", image="scripted")
    cluster.apply(deployment(2))
    cluster.wait_until(lambda: len(cluster.list("Pod", NS)) == 2, "pods")
    cluster.delete("Deployment", NS, "d", propagationPolicy="Background")
    cluster.wait_until(lambda: not cluster.list("Pod", NS) and not cluster.list("ReplicaSet", NS), "all gone")


@pytest.mark.parametrize(
    ("act", "spec", "reason"),
    [("complete", {}, "Complete"), ("crash", {}, "BackoffLimitExceeded"), ("ready", {"activeDeadlineSeconds": 1}, "DeadlineExceeded")],
)
def test_a_job_ends_with_its_reason(cluster, act, spec, reason):
    cluster.script(act, image="scripted")
    cluster.create(job(**spec))

    def ended() -> bool:
        found = cluster.get("Job", NS, "j")
        return condition(found, "Complete").get("type") == reason or condition(found, "Failed").get("reason") == reason

    cluster.wait_until(ended, reason)


def test_a_finished_job_is_deleted_after_its_ttl(cluster):
    cluster.script("complete", image="scripted")
    cluster.create(job(ttlSecondsAfterFinished=1))
    cluster.wait_until(lambda: condition(cluster.get("Job", NS, "j"), "Complete"), "complete")
    cluster.wait_until(lambda: not cluster.list("Job", NS) and not cluster.list("Pod", NS), "gone")


def test_deleting_a_namespace_deletes_its_objects(cluster):
    cluster.script("ready", image="scripted")
    cluster.apply(deployment(1))
    cluster.set_faults(stall_namespaces=True)
    cluster.delete("Namespace", "", NS)
    assert cluster.get("Namespace", "", NS)["status"]["phase"] == "Terminating"
    with pytest.raises(KubeRefused, match="because it is being terminated"):
        make_pod(cluster, pod_spec("true"))
    cluster.set_faults(stall_namespaces=False)
    cluster.wait_until(lambda: cluster.find("Namespace", "", NS) is None, "gone")
    assert cluster.list("Deployment") == []


# --- the API ------------------------------------------------------------------------------------------------------------------------------


def make_maps(cluster: KubeCluster, count: int) -> None:
    for number in range(count):
        metadata = {"name": f"m{number}", "namespace": NS, "labels": {"n": str(number % 2)}}
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def test_lists_are_paged_from_one_snapshot(cluster):
    make_maps(cluster, 5)
    path = cluster.path_of("ConfigMap", NS)
    page = cluster.request("GET", path, limit="2", labelSelector="n in (0,1)")
    assert page["metadata"]["remainingItemCount"] == 3
    cluster.delete("ConfigMap", NS, "m4")
    second = cluster.request("GET", path, limit="10", **{"continue": page["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in (*page["items"], *second["items"])] == ["m0", "m1", "m2", "m3", "m4"]
    page = cluster.request("GET", path, limit="2")
    cluster.set_faults(expire_continue=True)
    with pytest.raises(KubeRefused) as expired:
        cluster.request("GET", path, limit="2", **{"continue": page["metadata"]["continue"]})
    assert expired.value.status == 410 and expired.value.details["reason"] == "Expired"


@pytest.mark.parametrize("late", [False, True])
def test_a_watch_reports_changes_since_a_list(cluster, late):
    """Including changes made before the watch began."""
    make_maps(cluster, 1)
    path = cluster.path_of("ConfigMap", NS)
    version = cluster.request("GET", path)["metadata"]["resourceVersion"]
    query = f"?watch=true&resourceVersion={version}&labelSelector=n%3D0&timeoutSeconds=20"
    request = urllib.request.Request(cluster.url + path + query, headers={"Authorization": "Bearer test"})
    seen: list[tuple[str, str]] = []

    def read() -> None:
        with urllib.request.urlopen(request, timeout=20) as answer:
            for line in answer:
                event = json.loads(line)
                seen.append((event["type"], event["object"]["metadata"]["name"]))
                if len(seen) == 3:
                    return

    reader = threading.Thread(target=read)
    if not late:
        reader.start()
    for name, label in (("new", "0"), ("other", "1"), ("m0", "1")):
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NS, "labels": {"n": label}}}
        cluster.apply(item)
    cluster.delete("ConfigMap", NS, "new")
    if late:
        reader.start()
    reader.join(20)
    assert seen == [("ADDED", "new"), ("DELETED", "m0"), ("DELETED", "new")]


def test_a_watch_with_initial_events_marks_their_end(cluster):
    """Clients use it in place of a list."""
    make_maps(cluster, 2)
    query = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=n"
    request = urllib.request.Request(cluster.url + cluster.path_of("ConfigMap", NS) + query, headers={"Authorization": "Bearer test"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        events = [json.loads(answer.readline()) for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "ADDED", "BOOKMARK"]
    assert events[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_volume_claim_is_bound(cluster):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": NS}, "spec": spec})
    cluster.wait_until(lambda: cluster.get("PersistentVolumeClaim", NS, "data").get("status", {}).get("phase") == "Bound", "bound")


def test_invalid_objects_are_rejected_and_recorded(cluster):
    wrong = deployment()
    wrong["spec"]["replikas"] = 2
    with pytest.raises(KubeRefused) as refused:
        cluster.create(wrong)
    assert refused.value.status == 422
    found = cluster.complaints(clear=True)["violations"]
    assert len(found) == 2 and all("replikas" in text for text in found), "one of each version"


def test_requests_without_permission_are_rejected(cluster):
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    cluster.enforce("test", [], {NS: [rule]})
    cluster.list("ConfigMap", NS)
    for kind, namespace in (("ConfigMap", ""), ("Secret", NS)):
        with pytest.raises(KubeRefused, match='User \\\\"test\\\\" cannot list resource') as refused:
            cluster.list(kind, namespace)
        assert refused.value.status == 403


def test_injected_faults_affect_only_matching_requests(cluster):
    cluster.fault(409, times=1, verbs=["create"], resources=["configmaps"])
    with pytest.raises(KubeRefused) as refused:
        make_maps(cluster, 1)
    assert refused.value.status == 409 and cluster.find("ConfigMap", NS, "m0") is None
    cluster.fault(500, times=1, verbs=["create"], after=True)
    with pytest.raises(KubeRefused):
        make_maps(cluster, 1)
    assert cluster.find("ConfigMap", NS, "m0") is not None, "the answer was lost, not the object"
    cluster.away(3)
    with pytest.raises(OSError):
        cluster.list("ConfigMap", NS)
    cluster.wait_until(lambda: _answers(cluster), "it is back")


def _answers(cluster: KubeCluster) -> bool:
    try:
        cluster.list("ConfigMap", NS)
        return True
    except OSError:
        return False


def test_the_python_kubernetes_client_works(cluster):
    """Another client than that of sless."""
    code = (
        "import sys; from kubernetes import client, config\n"
        "config.load_kube_config(sys.argv[1])\n"
        "print([item.metadata.name for item in client.CoreV1Api().list_namespace().items])\n"
    )
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(cluster.kubeconfig)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert found.stdout.strip() == "['default', 'kube-system', 'tenant']", found.stderr
