"""Manifests of builder pods and their namespace, valid in the oldest and the newest supported Kubernetes."""

import base64
import json
from dataclasses import replace
from typing import Any

import kubernetes_validate
import pytest

from sless.builder.builder_fit import IMAGES, BuilderFit, builder_fit_of, times
from sless.builder.builder_job import BuildJob, env_secret_of, job_of
from sless.builder.builder_namespace import docker_config_of, namespace_manifests, secret_copy_manifest
from sless.builder.check_job import CheckJob, check_job_of, check_secret_of
from sless.config import Settings
from sless.domain.addresses import BLOCKED_4, BLOCKED_6, parse_allowed
from sless.errors import ConfigError
from tests.contract.builder_harness import LocalBuilderHarness

SECRET = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": base64.b64encode(b'{"auths": {}}').decode()}}
BUILD = BuildJob(
    id="b123", workload_id="w1", namespace="sless-1", name="hello", version=3, reference="r:5000/p/hello:t", url="http://sless/c?e=1&s=$(X)",
    sha256="ab", build_args={"RUNTIME_IMAGE": "mirror/python:1"}, env={"TOKEN": "sesame"},
)  # fmt: skip
SPEC = LocalBuilderHarness.spec_of(code_key="k", env={"PASSWORD": "sesame"})


def fit(**settings: Any) -> BuilderFit:
    given = {"registry_host": "r:5000", "registry_insecure": True, "registry_secret": "pull", "builder_args": ("--verbosity=debug",)}
    return builder_fit_of(Settings(**{**given, **settings}), "inst")


def builder_of(**settings: Any) -> dict[str, Any]:
    return dict(job_of(fit(**settings), BUILD)["spec"]["template"]["spec"]["initContainers"][1])


@pytest.mark.parametrize("version", ["1.30", "1.37"])
@pytest.mark.parametrize("builder", ["kaniko", "buildah"])
def test_every_manifest_is_valid(version, builder):
    made = replace(fit(builder=builder), egress_allow=parse_allowed(["10.1.0.0/16:5000"]))
    checks = [check_job_of(made, CheckJob(spec=SPEC, artifact=artifact)) for artifact in ("configmap:code-1", "r:5000/p/hello:t")]
    objects = [*namespace_manifests(made), *namespace_manifests(fit(builder=builder)), secret_copy_manifest(made, "sless-push", SECRET)]
    for item in [*objects, job_of(made, BUILD), env_secret_of(made, BUILD), check_secret_of(made, SPEC), *checks]:
        kubernetes_validate.validate(item, version, strict=True)


def test_job_has_the_build_limits():
    job = job_of(fit(build_timeout_sec=77), BUILD)
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (2, 77)
    assert job["metadata"]["namespace"] == "sless-builds"
    assert job["metadata"]["annotations"]["sless.dev/artifact"] == BUILD.reference
    assert job["metadata"]["labels"]["sless.dev/build"] == "b123"


def test_kaniko_arguments_include_those_of_the_settings():
    container = builder_of()
    assert container["image"] == IMAGES["kaniko"] != ""
    assert container["args"] == [
        "--force",
        "--context=/workspace",
        "--dockerfile=/workspace/Dockerfile",
        "--destination=r:5000/p/hello:t",
        "--no-push",
        "--oci-layout-path=/image/layout",
        "--build-arg=RUNTIME_IMAGE=mirror/python:1",
        "--label=sless.dev/installation=inst",
        "--label=sless.dev/tag=t",
        "--log-format=text",
        "--insecure-registry=r:5000",
        "--verbosity=debug",
    ]
    assert builder_of(builder_image="mirror/kaniko:1")["image"] == "mirror/kaniko:1"
    assert not any("insecure" in word for word in builder_of(registry_insecure=False)["args"])


def test_buildah_builds_and_saves_the_image():
    script = builder_of(builder="buildah")["command"][2]
    build, save = script.split(" && ")
    assert "bud --isolation=chroot --tls-verify=false --volume=/sless-build:/sless-build:ro" in build
    assert "--label=sless.dev/installation=inst --label=sless.dev/tag=t --verbosity=debug" in build and build.endswith("/workspace")
    assert save.endswith(" push r:5000/p/hello:t oci:/image/layout:image")


def secrets_of(pod: dict[str, Any], container: dict[str, Any]) -> set[str]:
    """Names of the Secrets that a container can read."""
    names = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert "env" not in container and "envFrom" not in container
    return {names[mount["name"]] for mount in container["volumeMounts"] if mount["name"] in names}


@pytest.mark.parametrize("builder", ["kaniko", "buildah"])
def test_no_credentials_are_mounted_where_tenant_code_runs(builder):
    pod = job_of(fit(builder=builder), BUILD)["spec"]["template"]["spec"]
    fetcher, build = pod["initContainers"]
    (push,) = pod["containers"]
    assert (build["name"], secrets_of(pod, build)) == ("builder", {"build-b123"}), "the tenant's own build_env"
    assert secrets_of(pod, fetcher) == set()
    assert secrets_of(pod, push) == {"sless-push"} and push["image"] != build["image"]
    assert {mount["name"] for mount in push["volumeMounts"]} == {"image", "registry"}, "only the image crosses over"


def test_private_base_images_use_their_own_secret():
    pod = job_of(fit(builder_pull_secret="base"), BUILD)["spec"]["template"]["spec"]
    assert secrets_of(pod, pod["initContainers"][1]) == {"build-b123", "sless-base-images"}


def test_image_is_pushed_to_the_api_host():
    settings = {"registry_host": "docker.io/me", "registry_insecure": False}
    words = job_of(fit(**settings), BUILD)["spec"]["template"]["spec"]["containers"][0]["command"]
    assert words[:3] == ["python3", "-E", "-c"] and words[4:8] == [
        "/image", "r:5000/p/hello:t", "https://registry-1.docker.io", "/sless-registry/config.json",
    ]  # fmt: skip


@pytest.mark.parametrize("builder", ["kaniko", "buildah"])
def test_pod_has_no_service_account_and_exposes_no_secret(builder):
    job = job_of(fit(builder=builder), BUILD)
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert "sesame" not in json.dumps(job)
    assert base64.b64decode(env_secret_of(fit(), BUILD)["data"]["env"]) == b"export TOKEN=sesame\n"
    assert pod["initContainers"][0]["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_kaniko_runs_at_the_baseline_level():
    security = builder_of()["securityContext"]
    assert security["allowPrivilegeEscalation"] is False and "privileged" not in security
    assert "SYS_ADMIN" not in security["capabilities"]["add"] and security["capabilities"]["drop"] == ["ALL"]
    labels = namespace_manifests(fit())[0]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"


@pytest.mark.parametrize("builder", ["kaniko", "buildah"])
def test_every_volume_has_a_size_limit_and_every_container_a_disk_limit(builder):
    pod = job_of(fit(builder=builder), BUILD)["spec"]["template"]["spec"]
    volumes = pod["volumes"]
    assert [volume["name"] for volume in volumes if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]] == []
    containers = {item["name"]: item["resources"] for item in (*pod["initContainers"], *pod["containers"])}
    limits = {name: int(item["limits"]["ephemeral-storage"].removesuffix("Gi")) for name, item in containers.items()}
    # A node counts the volumes against the largest of the containers that run one after the other.
    assert limits["builder"] > sum(int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) for volume in volumes if "emptyDir" in volume)
    # Without a request, the limit would be one.
    assert {item["requests"]["ephemeral-storage"] for item in containers.values()} == {"64Mi"}


def test_variable_references_in_arguments_are_escaped():
    command = job_of(fit(), BUILD)["spec"]["template"]["spec"]["initContainers"][0]["command"]
    assert command[-3] == "http://sless/c?e=1&s=$$(X)"


def test_pod_spec_can_be_overridden():
    pod = job_of(fit(builder_pod='{"hostUsers": false, "nodeSelector": {"pool": "builds"}}'), BUILD)["spec"]["template"]["spec"]
    assert pod["hostUsers"] is False and pod["nodeSelector"] == {"pool": "builds"}


def test_no_secret_is_mounted_when_none_is_configured():
    pod = job_of(fit(registry_secret=""), BUILD)["spec"]["template"]["spec"]
    assert "imagePullSecrets" not in pod and not any(volume["name"] == "registry" for volume in pod["volumes"])


def test_quota_covers_concurrent_builds():
    quota = next(item for item in namespace_manifests(fit(builds_at_once=3, builder_memory="1Gi")) if item["kind"] == "ResourceQuota")
    assert quota["spec"]["hard"] == {"pods": "5", "limits.cpu": "10", "limits.memory": "5Gi"}
    assert times("500m", 3) == "1500m"


def egress_of(**settings: Any) -> list[dict[str, Any]]:
    policy = next(item for item in namespace_manifests(fit(**settings)) if item["kind"] == "NetworkPolicy")["spec"]
    assert (policy["ingress"], policy["podSelector"], policy["policyTypes"]) == ([], {}, ["Ingress", "Egress"])
    return list(policy["egress"])


def test_builder_pods_reach_public_addresses_dns_and_sless_only():
    dns, public, server = egress_of(registry_host="harbor.example.net")
    assert dns["ports"] == [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    assert dns["to"][0]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    assert [to.get("ipBlock") for to in dns["to"]] == [None, {"cidr": "169.254.20.10/32"}], "the resolver of a node"
    assert [tuple(to["ipBlock"]["except"]) for to in public["to"]] == [BLOCKED_4, BLOCKED_6]
    assert server["to"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "sless"}},
            "podSelector": {"matchLabels": {"sless.dev/component": "server"}},
        }
    ]


def test_builder_pods_reach_what_the_settings_name():
    more = egress_of(
        registry_host="10.1.2.3:5000", s3_endpoint="http://minio.storage.svc.cluster.local:9000", builder_egress_allow=("10.7.0.0/16:443",)
    )[3:]
    ports = [{"port": 443, "protocol": "TCP"}, {"port": 443, "protocol": "UDP"}]
    assert more == [
        {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "storage"}}}]},
        {"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}]},
        {"to": [{"ipBlock": {"cidr": "10.7.0.0/16"}}], "ports": ports},
    ]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("builder_memory", "much"), ("builder_cpu", "1.5"), ("builder_pod", "[]"), ("builder_pod", "{"), ("builder_egress_allow", ("x",)),
        ("registry_host", "a b"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(setting, value):
    with pytest.raises(ConfigError, match=f"SLESS_{setting.upper()}"):
        fit(**{setting: value})


def test_the_import_asks_for_little_memory():
    limits = {}
    for memory_mb in (64, 2048):
        for whole in (False, True):
            check = CheckJob(spec=replace(SPEC, memory_mb=memory_mb), artifact="configmap:code-1", whole=whole)
            job = check_job_of(fit(), check)
            container = job["spec"]["template"]["spec"]["containers"][0]
            limits[job["metadata"]["name"].removeprefix(f"check-{SPEC.id}"), memory_mb] = container["resources"]["limits"]["memory"]
    assert limits == {("", 64): "64Mi", ("-whole", 64): "64Mi", ("", 2048): "256Mi", ("-whole", 2048): "2048Mi"}


def test_check_runs_small_code_on_the_runtime_image_and_other_code_on_its_own():
    small, image = (
        check_job_of(fit(), CheckJob(spec=SPEC, artifact=artifact))["spec"]["template"]["spec"]["containers"][0]
        for artifact in ("configmap:code-1", "r:5000/p/hello:t")
    )
    assert small["image"] == "sless/runtime-python3.11:latest" and image["image"] == "r:5000/p/hello:t"
    env = {item["name"]: item["value"] for item in small["env"]}
    assert (env["SLESS_MODE"], env["SLESS_CODE_ARCHIVE"]) == ("check", "/app/archive/code.tar.gz")
    assert "sesame" not in json.dumps(small) and small["envFrom"] == [{"secretRef": {"name": f"check-{SPEC.id}"}}]


def test_both_docker_config_formats_are_read():
    assert docker_config_of(SECRET) == '{"auths": {}}'
    old = {"data": {".dockercfg": base64.b64encode(b'{"r": {"auth": "x"}}').decode()}}
    assert json.loads(docker_config_of(old) or "") == {"auths": {"r": {"auth": "x"}}}
    assert docker_config_of({}) is None
