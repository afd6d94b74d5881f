"""Observed state of deployments and runs, and its messages to users."""

from datetime import UTC, datetime, timedelta

import pytest

from sless.backend.kubernetes.observation import Memory, ended_instances_of, endpoint_of, is_rolled_out, observed_deployment, replaced_pods
from sless.backend.kubernetes.run_manifests import MEMORY, TIMEOUT
from sless.backend.kubernetes.run_observation import run_state_of
from sless.domain.model import CallStatus
from sless.kube.errors import Conflict, KubeError, Refused, Unavailable, error_of, plain
from sless.kube.names import GENERATION, ROLE, ROLE_UNRESPONSIVE, VERSION, WORKLOAD
from sless.kube.pod_state import trouble_of_pod

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def at(sec: float) -> str:
    return (NOW - timedelta(seconds=sec)).isoformat().replace("+00:00", "Z")


def pod(status: dict | None = None, *, age_sec: float = 60, leaving: bool = False, labels: dict | None = None, **more) -> dict:
    metadata = {"uid": "u1", "name": "p", "namespace": "n", "creationTimestamp": at(age_sec),
                "labels": {WORKLOAD: "w", VERSION: "3", **(labels or {})}}  # fmt: skip
    if leaving:
        metadata["deletionTimestamp"] = at(1)
    container = {"name": "function", "image": "x:1", "resources": {"limits": {"memory": "64Mi"}}}
    statuses = [{"name": "function", "restartCount": 0, **status}] if status else []
    return {"metadata": metadata, "spec": {"containers": [container]},
            "status": {"podIP": "10.0.0.9", "containerStatuses": statuses, **more}}  # fmt: skip


RUNNING = {"state": {"running": {"startedAt": at(50)}}, "ready": True}
CRASHED = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 3}}, "ready": False}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such"}}}, "image x:1 cannot be pulled: no such"),
        ({"state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}}},
         'the container cannot be created: secret "s" not found'),
        (CRASHED, "function exited with code 3"),
        ({"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}, "out of memory: over the limit of 64 MB"),
        ({"state": {"terminated": {"exitCode": 139}}}, "function was ended by SIGSEGV (segmentation fault)"),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, None),
        (RUNNING, None),
    ],
)  # fmt: skip
def test_messages_about_a_pod(status, words):
    trouble = trouble_of_pod(pod(status), NOW)
    assert (trouble.text if trouble else None) == words


def test_an_unschedulable_pod_is_reported_after_a_delay():
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    assert trouble_of_pod(pod(conditions=[condition], age_sec=1), NOW) is None
    assert trouble_of_pod(pod(conditions=[condition], age_sec=9), NOW).text == "no node of the cluster can take the pod: 0/1 nodes"


def test_endpoints_are_ready_and_terminating_pods():
    found = endpoint_of(pod(RUNNING))
    assert (found.id, found.address, found.version, found.draining) == ("u1-0", "10.0.0.9:8080", 3, False)
    assert endpoint_of(pod(RUNNING, leaving=True)).draining
    assert endpoint_of(pod({**RUNNING, "ready": False})) is None
    assert endpoint_of(pod(CRASHED)) is None
    assert endpoint_of(pod(RUNNING, podIP="fd00::9")).address == "[fd00::9]:8080"


def test_a_restarted_container_is_another_instance():
    again = {**RUNNING, "restartCount": 2, "lastState": {"terminated": {"exitCode": 1}}}
    assert endpoint_of(pod(again)).id == "u1-2"
    assert ended_instances_of(pod(again)) == {"u1-1": "function exited with code 1"}
    assert ended_instances_of(pod({**CRASHED, "restartCount": 4})) == {"u1-4": "function exited with code 3"}


def deployment(**status) -> dict:
    return {"metadata": {"generation": 2, "annotations": {}}, "spec": {"replicas": 2}, "status": {"observedGeneration": 2, **status}}


@pytest.mark.parametrize(
    ("status", "done"),
    [
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, True),
        ({"replicas": 3, "updatedReplicas": 2, "availableReplicas": 3}, False),
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}, False),
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 1}, False),
        ({}, False),
    ],
)
def test_when_a_roll_out_is_complete(status, done):
    assert is_rolled_out(deployment(**status)) is done


def test_a_crash_is_reported_with_its_last_lines():
    seen = observed_deployment("w", deployment(), [pod(CRASHED)], Memory(tails={}), NOW)
    assert (seen.failing, seen.message) == (False, "")
    seen = observed_deployment("w", deployment(), [pod(CRASHED)], Memory(tails={"u1-0": ("a", "b")}), NOW)
    assert (seen.failing, seen.message) == (True, "function exited with code 3\na\nb")


def test_pods_of_an_older_template_do_not_count_for_the_new_one():
    template = {"metadata": {"labels": {VERSION: "4"}}, "spec": pod()["spec"]}
    changed = deployment()
    changed["spec"]["template"] = template
    changed["metadata"]["annotations"][GENERATION] = "9"
    memory = Memory(tails={"u1-0": ("a",)})
    seen = observed_deployment("w", changed, [pod(CRASHED)], memory, NOW)
    assert (seen.failing, seen.message, seen.wanted) == (False, "", 9)
    template["metadata"]["labels"][VERSION] = "3"
    assert observed_deployment("w", changed, [pod(CRASHED)], memory, NOW).failing


def test_a_refusal_is_shown_without_a_deployment():
    seen = observed_deployment("w", None, [], Memory(tails={}, failure="no", refused=3), NOW)
    assert (seen.generation, seen.endpoints, seen.message, seen.failing, seen.wanted) == (0, (), "no", True, 3)
    assert observed_deployment("w", None, [], Memory(tails={}), NOW) is None


def test_an_unresponsive_pod_is_removed_once_its_successor_is_ready():
    unresponsive, fresh = pod(RUNNING, labels={ROLE: ROLE_UNRESPONSIVE}), pod(RUNNING)
    one = {**deployment(), "spec": {"replicas": 1}}
    assert replaced_pods(one, [unresponsive]) == []
    assert replaced_pods(one, [unresponsive, fresh]) == [unresponsive]
    assert replaced_pods(None, [unresponsive]) == [unresponsive]


# --- runs ---


def job(age_sec: float = 60, **status) -> dict:
    return {"metadata": {"creationTimestamp": at(age_sec), "annotations": {MEMORY: "64", TIMEOUT: "30"}}, "status": status}


def failed(reason: str) -> dict:
    return {"conditions": [{"type": "Failed", "status": "True", "reason": reason}]}


@pytest.mark.parametrize(
    ("item", "pods", "refusal", "status", "message"),
    [
        (job(), pod({"state": {"running": {"startedAt": at(10)}}}), "", CallStatus.RUNNING, ""),
        (job(), pod({"state": {"running": {"startedAt": at(40)}}}), "", CallStatus.TIMEOUT, "timed out after 30 s"),
        (job(), pod({"state": {"terminated": {"exitCode": 9}}}), "", CallStatus.FAILED, "function exited with code 9"),
        (job(), pod({"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}), "", CallStatus.FAILED,
         "out of memory: over the limit of 64 MB"),
        (job(**failed("DeadlineExceeded")), pod({"state": {"terminated": {"exitCode": 143}}}), "", CallStatus.TIMEOUT,
         "timed out after 30 s"),
        (job(**failed("DeadlineExceeded")), None, "", CallStatus.TIMEOUT, "timed out after 30 s"),
        (job(**failed("BackoffLimitExceeded")), None, "", CallStatus.FAILED,
         "the run's pod was removed from the cluster before it had ended"),
        (job(), pod({"state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}), "", CallStatus.FAILED,
         "image x:1 cannot be pulled: no"),
        (job(5), pod({"state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}), "", CallStatus.RUNNING, ""),
        (job(), None, "exceeded quota: q, requested: pods=1, used: pods=20, limited: pods=20", CallStatus.FAILED,
         "the cluster refuses a new pod: the quota of the namespace is used up (pods: 1 more asked, 20 of 20 in use)"),
        (job(5), None, "exceeded quota", CallStatus.RUNNING, ""),
    ],
)  # fmt: skip
def test_run_states(item, pods, refusal, status, message):
    state = run_state_of(item, pods, refusal, NOW, 15.0)
    assert (state.status, state.message) == (status, message)


@pytest.mark.parametrize(
    ("item", "seen", "refusal"),
    [
        (job(), pod({"state": {"running": {"startedAt": at(40)}}}), ""),
        (job(), pod({"state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}), ""),
        (job(), None, "exceeded quota"),
    ],
)
def test_no_run_times_out_right_after_an_outage(item, seen, refusal):
    """Its node may not have reported yet that it ended in time, or that it is running."""
    assert run_state_of(item, seen, refusal, NOW, None).status is CallStatus.RUNNING
    ended = pod({"state": {"terminated": {"exitCode": 9}}})
    assert run_state_of(job(), ended, "", NOW, None).status is CallStatus.FAILED


# --- errors of the API ---


@pytest.mark.parametrize(
    ("status", "type_"),
    [(409, Conflict), (403, Refused), (422, Refused), (500, Unavailable), (429, Unavailable), (401, Unavailable), (404, KubeError)],
)
def test_error_types_by_status(status, type_):
    assert type(error_of(status, b'{"kind": "Status", "message": "m", "reason": "R"}')) is type_
    assert error_of(status, b"<html>").message == "<html>"


def test_refusals_are_shortened():
    assert plain('pods "hello-1" is forbidden: violates PodSecurity "restricted:latest"') == 'violates PodSecurity "restricted:latest"'
    assert plain("anything else") == "anything else"
