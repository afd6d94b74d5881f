"""KubernetesBuilder beyond the common suite: restarts, refusals, secrets, clean-up. Runs on the stand-in cluster."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sless.builder.check_job import CheckJob, check_job_of
from sless.builder.kubernetes import make_kubernetes_builder
from sless.domain.durations import Durations
from sless.domain.model import Version, VersionState
from sless.domain.ports import BuilderUnavailable, BuildStatus
from sless.ids import new_id
from tests.contract.backend_harness import wait_until
from tests.contract.builder_harness_kube import KubernetesBuilderHarness
from tests.kube.image_builder import image_of
from tests.services.registry import PASSWORD, USER, RegistryServer, push_empty

HELLO = {"handler.py": "def handle(event):\n    return 1\n"}
FAILS = {**HELLO, "requirements.txt": "--no-index\nnosuch==9\n"}
IMAGE = {**HELLO, "requirements.txt": "--no-index\n--find-links .\n"}
"""Installs nothing, but needs an image."""
BUILDS = "default-builds"


@pytest.fixture
def harness(kube_cluster, registry_server: RegistryServer) -> Iterator[KubernetesBuilderHarness]:
    KubernetesBuilderHarness.cluster, KubernetesBuilderHarness.registry = kube_cluster, registry_server
    made = KubernetesBuilderHarness(durations=Durations(pod_start_sec=1.0))
    yield made
    made.close()


def version_of(spec, status: BuildStatus, state: VersionState = VersionState.READY) -> Version:
    return Version(
        id=spec.id, workload_id=spec.workload_id, number=1, sha256="", code_hash=None, runtime=spec.runtime, entrypoint=spec.entrypoint,
        state=state, message="", code_key=spec.code_key, artifact=status.artifact, size_bytes=1, attempts=1, auto_activate=True,
        build_env={}, created_at=datetime.now(UTC), started_at=None, ended_at=None,
    )  # fmt: skip


def left(harness: KubernetesBuilderHarness) -> list[str]:
    """The build Jobs and Secrets that still exist."""
    label = "sless.dev/build"
    found = [(kind, item["metadata"]) for kind in ("Job", "Secret") for item in harness.cluster.list(kind)]
    return [f"{kind}/{metadata['name']}" for kind, metadata in found if label in (metadata.get("labels") or {})]


# --- small code ------------------------------------------------------------------------------------------------------------------------


def test_conflicts_do_not_fail_a_build(harness):
    """A quota may answer 409 to concurrent creations without creating the object."""
    harness.cluster.fault(409, times=1, verbs=["patch"], resources=["namespaces"])
    harness.cluster.fault(409, times=1, verbs=["create"], resources=["configmaps"])
    harness.cluster.fault(409, times=1, verbs=["create"], resources=["jobs"])
    _, status = harness.build(HELLO)
    assert status.ready, status.message
    assert harness.cluster.find("ConfigMap", harness.tenant, status.artifact.removeprefix("configmap:"))


def test_a_namespace_being_deleted_does_not_fail_a_build(harness):
    harness.cluster.fault(404, times=1, verbs=["create"], resources=["configmaps"], message='namespaces "sless-fn-x" not found')
    _, status = harness.build(HELLO)
    assert status.ready, status.message


def test_small_code_becomes_an_immutable_config_map_without_a_registry(harness):
    harness.make(registry_host="", registry_secret="")
    spec, status = harness.build(HELLO)
    assert status.ready, status.message
    config_map = harness.cluster.get("ConfigMap", harness.tenant, status.artifact.removeprefix("configmap:"))
    assert config_map["immutable"] is True and list(config_map["binaryData"]) == ["code.tar.gz"]
    assert harness.cluster.find("Namespace", "", BUILDS) is None, "nobody needs it"
    again = harness.build(HELLO, name="other")[1]
    assert again.artifact == status.artifact, "equal code is one object"


def test_code_that_needs_an_image_fails_without_a_registry(harness):
    harness.make(registry_host="", registry_secret="")
    _, status = harness.build(FAILS)
    assert status.message == "requirements.txt lists packages, but this installation has no image registry (SLESS_REGISTRY_HOST)"


def test_image_build_always_builds_an_image_even_for_small_code(harness):
    harness.make(image_build="always")
    _, status = harness.build(HELLO)
    assert status.ready and status.artifact.startswith(f"{harness.registry.host}/functions/sless-0123456789abcdef-hello:")


# --- images ----------------------------------------------------------------------------------------------------------------------------


def test_an_existing_image_is_reused_except_for_a_rebuild(harness):
    spec, first = harness.build(IMAGE)
    assert any(line.startswith(f"pushed {first.artifact} sha256:") for line in harness.log[spec.id]), "the log of each container"
    same = replace(spec, id=new_id(), version=2)
    harness.start(same)
    assert harness.wait(same).artifact == first.artifact
    assert any("already exists" in line for line in harness.log[same.id])
    afresh = replace(spec, id=new_id(), version=3, rebuild=True)
    harness.start(afresh)
    status = harness.wait(afresh)
    assert status.artifact == f"{first.artifact}-v3"
    assert any("built image" in line for line in harness.log[afresh.id])


def test_a_restarted_server_follows_the_running_build(harness, tmp_path):
    gate = tmp_path.parent / f"gate-{new_id(6)}"
    spec = harness.spec({**HELLO, **_waiting(gate)})
    harness.start(spec)
    wait_until(lambda: harness.poll(spec) or any("Processing" in line for line in harness.log[spec.id]), "it began", 30)
    harness.builder.close()
    assert [job["metadata"]["name"] for job in harness.jobs()] == [f"build-{spec.id}"], "the Job outlives the process"
    harness.builder = harness.new_builder()
    harness.start(spec)
    wait_until(lambda: harness.poll(spec) or any("following it" in line for line in harness.log[spec.id]), "found again", 30)
    gate.touch()
    assert harness.wait(spec).ready is False
    assert len(harness.jobs()) <= 1


def _waiting(gate) -> dict[str, str]:
    wait = f"import os, time\n    while not os.path.exists(bytes.fromhex({str(gate).encode().hex()!r}).decode()): time.sleep(0.02)"
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    backend = f"def prepare_metadata_for_build_wheel(*_, **__):\n    {wait}\n    raise SystemExit(1)\n"
    return {"pkg/pyproject.toml": project, "pkg/backend.py": backend, "requirements.txt": "--no-index\n./pkg\n"}


def test_user_errors_are_not_retried(harness):
    spec, status = harness.build(FAILS)
    assert status.message.startswith('pip could not install "nosuch==9" from requirements.txt, line 2')
    assert sum("No matching distribution" in line for line in harness.log[spec.id]) == 1


def test_a_build_leaves_nothing_behind(harness):
    for files in (IMAGE, FAILS, HELLO):
        harness.build(files, build_env={"TOKEN": "sesame-open"})
    wait_until(lambda: not left(harness), lambda: f"gone: {left(harness)}")
    assert harness.contexts.list_ids() == []


def test_build_env_is_only_in_the_builds_secret(harness):
    harness.cluster.script("pending", namespace=BUILDS)
    spec = harness.spec(IMAGE, build_env={"TOKEN": "sesame-open"}, env={"PASSWORD": "sesame-own"})
    harness.start(spec)
    (job,) = wait_until(harness.jobs, "the Job")
    assert "sesame" not in str(job)
    secrets = [item["metadata"]["name"] for item in harness.cluster.list("Secret", BUILDS)]
    assert sorted(secrets) == [f"build-{spec.id}", "sless-push"], "no secret of the tenant besides"
    assert "sesame-own" not in str([content for item in harness.cluster.list("Secret", BUILDS) for content in item["data"].values()])


# --- refusals --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ("pull_error", "the build cannot start: image "),
        ("unschedulable", "the build cannot start: no node of the cluster can take the pod: "),
    ],
)
def test_a_builder_that_cannot_start_fails_soon(harness, act, words):
    harness.cluster.script(act, namespace=BUILDS)
    _, status = harness.build(IMAGE)
    assert status.ready is False and status.message.startswith(words)


def test_full_quota_is_reported(harness):
    harness.build(HELLO)  # creates the tenant's namespace
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "tiny", "namespace": harness.tenant},
        "spec": {"hard": {"pods": "0"}},
    }  # fmt: skip
    harness.cluster.create(quota)
    _, status = harness.build({"handler.py": "x = 1\ndef handle(event): pass\n"})
    assert status.message.startswith("the import of handler.handle cannot start: the cluster refuses a new pod: the quota of the namespace")


def test_a_missing_push_secret_is_reported(harness):
    harness.make(registry_secret="nosuch")
    _, status = harness.build(IMAGE)
    assert "nosuch" in status.message and status.ready is False


def test_a_build_waits_for_the_api(harness):
    spec = harness.spec(HELLO)
    harness.cluster.away(1.5)
    harness.start(spec)
    assert harness.wait(spec).ready
    assert any(line.startswith("waiting: the Kubernetes API does not answer") for line in harness.log[spec.id])


def test_a_used_up_quota_delays_a_build_and_is_reported(harness):
    harness.cluster.script("complete", namespace=harness.tenant, after_sec=6.0)
    first, second = harness.spec(HELLO), harness.spec(HELLO)
    harness.start(first)
    wait_until(lambda: harness.cluster.list("Pod", harness.tenant), "the check of the first")
    metadata = {"name": "narrow", "namespace": harness.tenant}
    harness.cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "1"}}})
    harness.start(second)
    wait_until(lambda: "quota" in harness.builder.poll(second.id).message, "the reason while it waits")
    assert harness.wait(first).ready and harness.wait(second).ready


def test_the_import_gets_the_whole_memory_only_if_it_needs_it(harness):
    harness.cluster.script("oom", namespace=harness.tenant)
    spec, status = harness.build(HELLO, memory_mb=1024)
    assert status.message == "importing handler.handle: out of memory: over the limit of 1024 MB"
    assert sum("needs more than 256 MB; again with 1024 MB" in line for line in harness.log[spec.id]) == 1


def test_a_build_larger_than_the_quota_fails(harness):
    assert harness.build(HELLO)[1].ready, "the namespace exists"
    metadata = {"name": "narrow", "namespace": harness.tenant}
    harness.cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"limits.memory": "64Mi"}}})
    _, status = harness.build(HELLO, memory_mb=128)
    assert not status.ready and "the quota of the namespace is used up (memory: 128Mi more asked, 0 of 64Mi in use)" in status.message


def test_an_api_outage_does_not_end_a_build(harness):
    harness.cluster.script("complete", namespace=harness.tenant, after_sec=2.0)
    spec = harness.spec(HELLO)
    harness.start(spec)
    wait_until(lambda: harness.cluster.list("Job", harness.tenant), "the check began")
    harness.cluster.away(1.5)
    assert harness.wait(spec).ready


def test_start_timeout_restarts_after_an_api_outage(harness):
    """Nodes update their status after the API is back, so the first observation may be stale."""
    harness.hurry(Durations(pod_start_sec=4.0))
    image = image_of(harness.cluster._control, harness.root / "images")
    harness.cluster.remove_image("image-builder")
    spec = harness.spec(IMAGE)
    harness.start(spec)
    wait_until(lambda: any("ErrImagePull" in str(pod) for pod in harness.cluster.list("Pod", BUILDS)), "no image")
    harness.cluster.away(5)
    wait_until(lambda: not can_list(harness.cluster), "away", 5)
    wait_until(lambda: can_list(harness.cluster), "back", 15)
    harness.cluster.add_image("image-builder", image)
    assert harness.wait(spec).ready


def can_list(cluster) -> bool:
    try:
        return bool(cluster.list("Namespace"))
    except OSError:
        return False


# --- clean-up --------------------------------------------------------------------------------------------------------------------------


def test_discard_removes_only_our_images(harness):
    auth = (USER, PASSWORD)
    push_empty(harness.registry.host, "functions/gone", "t1", auth)
    artifact = f"{harness.registry.host}/functions/gone:t1"
    for _ in range(2):  # deleting twice is not an error
        harness.builder.discard(artifact)
    assert harness.registry.tags("functions/gone") == []
    for other in ("elsewhere.example/functions/gone:t1", "configmap:code-1", "0123"):
        harness.builder.discard(other)


def test_a_failed_build_names_the_image_that_it_leaves(harness):
    """So that the image can be removed with the version."""
    spec, status = harness.build({**IMAGE, "handler.py": "raise RuntimeError('no import')\n"})
    assert not status.ready and "no import" in status.message
    repository, tag = repository_of(harness, status), status.artifact.rpartition(":")[2]
    assert tag in harness.registry.tags(repository)
    harness.builder.discard(status.artifact)
    assert tag not in harness.registry.tags(repository)


def test_a_running_build_names_its_image(harness, tmp_path):
    """Also to the server that follows it after a restart."""
    gate = tmp_path.parent / f"gate-{new_id(6)}"
    spec = harness.spec({**HELLO, **_waiting(gate)})
    harness.start(spec)
    wait_until(harness.jobs, "the Job")
    named = harness.builder.poll(spec.id)
    harness.builder.close()
    harness.builder = harness.new_builder()
    harness.start(spec)
    wait_until(lambda: harness.builder.poll(spec.id).artifact, "the image is known")
    assert named.ready is None and harness.builder.poll(spec.id).artifact == named.artifact != ""
    gate.touch()
    status = harness.wait(spec)
    assert (status.ready, status.artifact) == (False, named.artifact)


def test_installations_share_a_registry(harness):
    """The same tenant and code in two installations are two images."""
    spec, one = harness.build(IMAGE)
    harness.builder.close()
    other = make_kubernetes_builder(
        harness.settings, harness.kube, "inst-4567", harness.code, harness.contexts, durations=harness.durations
    )  # fmt: skip
    harness.builder = other
    again = replace(spec, id=new_id())
    harness.start(again)
    two = harness.wait(again)
    assert "belongs to another installation" in two.message, "in one cluster, they share no tenant"
    repository, tags = repository_of(harness, one), [status.artifact.rpartition(":")[2] for status in (one, two)]
    assert len(set(tags)) == 2 and set(tags) <= set(harness.registry.tags(repository))
    other.discard(two.artifact)
    assert set(tags) & set(harness.registry.tags(repository)) == {tags[0]}


def repository_of(harness: KubernetesBuilderHarness, status: BuildStatus) -> str:
    return status.artifact.removeprefix(f"{harness.registry.host}/").rpartition(":")[0]


def test_discard_raises_when_the_registry_is_unavailable(harness):
    harness.make(registry_host="127.0.0.1:9")
    with pytest.raises(BuilderUnavailable):
        harness.builder.discard("127.0.0.1:9/functions/gone:t1")


def test_collect_keeps_used_and_recent_objects(harness):
    used, one = harness.build(HELLO)
    _unused, two = harness.build({"handler.py": "y = 1\ndef handle(event): pass\n"})
    names = [status.artifact.removeprefix("configmap:") for status in (one, two)]
    kept = [version_of(used, one)]
    harness.builder.collect(lambda: kept, 3600)
    assert all(harness.cluster.find("ConfigMap", harness.tenant, name) for name in names), "young"
    harness.builder.collect(lambda: kept, -5)
    assert [bool(harness.cluster.find("ConfigMap", harness.tenant, name)) for name in names] == [True, False]


def test_collect_removes_leftovers_of_unknown_builds(harness):
    harness.cluster.script("pending", namespace=BUILDS)
    spec = harness.spec(IMAGE)
    harness.start(spec)
    wait_until(harness.jobs, "the Job")
    going = version_of(spec, BuildStatus(ready=None), VersionState.BUILDING)
    harness.builder.collect(lambda: [going], 0)
    assert harness.jobs() and harness.contexts.list_ids() == [spec.id]
    harness.builder.close()
    harness.builder = harness.new_builder()
    harness.builder.collect(list, 0)
    wait_until(lambda: not left(harness), "gone")
    assert harness.contexts.list_ids() == []


def test_collect_spares_builds_that_start_during_it(harness):
    harness.cluster.script("pending", namespace=BUILDS)
    spec = harness.spec(IMAGE)

    def read_before_it_started() -> list[Version]:
        harness.start(spec)
        wait_until(harness.jobs, "the Job")
        return []

    harness.builder.collect(read_before_it_started, 0)
    assert harness.jobs() and harness.contexts.list_ids() == [spec.id]


def test_the_check_pod_is_as_restricted_as_a_function_pod(harness):
    spec = harness.spec(HELLO)
    pod = check_job_of(harness.builder._steps.fit, CheckJob(spec=spec, artifact="configmap:code-1"))["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False and pod["restartPolicy"] == "Never"
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
