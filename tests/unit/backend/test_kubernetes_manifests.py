"""The objects of functions are valid in Kubernetes 1.30 and 1.37."""

import base64
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from sless.backend.kubernetes.fit import fit_of
from sless.backend.kubernetes.manifests import wanted_of
from sless.backend.kubernetes.run_manifests import event_secret, job_of, run_env_secret
from sless.config import Settings
from sless.domain.addresses import BLOCKED_4, BLOCKED_6
from sless.domain.model import CallTrigger, Kind
from sless.domain.ports import Deployment, Revision, RunSpec
from sless.errors import ConfigError
from sless.kube.code_map import code_map_manifest
from sless.kube.names import cluster_namespace_of
from sless.kube.pods import placement_of
from sless.kube.tenant import pull_secret_manifest, tenant_manifests, tenant_policy_of
from sless.proxy import oneoff
from tests.kube.schemas import mistakes_of

TENANT = "sless-0123456789abcdef"
SMALL = "configmap:code-abc"
FULL = {
    "runtime_class": "gvisor",
    "node_selector": ("pool=functions",),
    "tolerations": '[{"key": "functions", "operator": "Exists"}]',
    "registry_pull_secret": "registry",
    "ingress_host": "fn.example.org",
    "ingress_class": "nginx",
    "ingress_tls_secret": "wildcard",
    "egress_allow": ("10.1.2.3:5432", "fd00::/8"),
}


def settings(**more) -> Settings:
    return Settings(data_dir=Path("/nowhere"), **more)


def revision(**more) -> Revision:
    given = {
        "workload_id": "w1", "namespace": TENANT, "name": "hello", "kind": Kind.FUNCTION, "version": 3, "runtime": "python3.11",
        "entrypoint": "handler.handle", "code_key": "k", "artifact": "registry.example/x:1", "memory_mb": 128, "timeout_sec": 30,
        "env": {"B": "2", "A": "1"},
    }  # fmt: skip
    return Revision(**{**given, **more})


def desired(generation: int = 1, replicas: int = 2, **more) -> Deployment:
    return Deployment(revision=revision(**more), replicas=replicas, generation=generation)


def run(event: str = '{"x": 1}', **more) -> RunSpec:
    return RunSpec(id="i0123456789", revision=revision(**more), event=event, request_id="r", trigger=CallTrigger.JOB)


def archive() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("handler.py", "def handle(event): ...")
    return packed.getvalue()


def objects(**more) -> list[dict]:
    fit = fit_of(settings(**more), "ins1")
    policy = tenant_policy_of(settings(**more), "ins1")
    small = wanted_of(fit, desired(artifact=SMALL))
    built = wanted_of(fit, desired(kind=Kind.SERVICE, timeout_sec=0))
    return [
        *tenant_manifests(policy, TENANT),
        pull_secret_manifest(policy, TENANT, {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}}),
        *(item for wanted in (small, built) for item in (*wanted.before, wanted.deployment, *wanted.after)),
        code_map_manifest("ins1", cluster_namespace_of(TENANT), "w1", archive()),
        event_secret(fit, run()), run_env_secret(fit, run()), job_of(fit, run()), job_of(fit, run(artifact=SMALL)),
    ]  # fmt: skip


@pytest.mark.parametrize("more", [{}, FULL], ids=["default", "full"])
def test_every_object_is_valid(more):
    for item in objects(**more):
        assert mistakes_of(item) == [], item["kind"]


def test_the_order_of_variables_does_not_change_objects():
    fit = fit_of(settings(), "ins1")
    assert wanted_of(fit, desired(env={"A": "1", "B": "2"})) == wanted_of(fit, desired(env={"B": "2", "A": "1"}))


def test_a_new_generation_alone_does_not_roll_out():
    fit = fit_of(settings(), "ins1")
    one, two = wanted_of(fit, desired(generation=1)), wanted_of(fit, desired(generation=2))
    assert one.deployment["spec"] == two.deployment["spec"] and one.before == two.before
    assert one.deployment["metadata"] != two.deployment["metadata"]


@pytest.mark.parametrize(
    "change",
    [{"env": {"A": "2"}}, {"memory_mb": 256}, {"version": 4}, {"artifact": "x:2"}, {"entrypoint": "a.b"}, {"concurrency": 7}],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_revision_changes_its_pods(change):
    fit = fit_of(settings(), "ins1")
    before, after = wanted_of(fit, desired()), wanted_of(fit, desired(**change))
    assert before.deployment["spec"]["template"] != after.deployment["spec"]["template"]


def test_variables_are_only_in_a_secret():
    fit = fit_of(settings(), "ins1")
    wanted = wanted_of(fit, desired(env={"TOKEN": "hush"}))
    (secret,) = [item for item in wanted.before if item["kind"] == "Secret"]
    assert base64.b64decode(secret["data"]["TOKEN"]) == b"hush"
    assert "hush" not in json.dumps(wanted.deployment) and "TOKEN" not in json.dumps(wanted.deployment)
    (container,) = wanted.deployment["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]


def test_user_variables_override_defaults():
    fit = fit_of(settings(), "ins1")
    (container,) = wanted_of(fit, desired(env={"HOME": "/data"})).deployment["spec"]["template"]["spec"]["containers"]
    names = {item["name"] for item in container["env"]}
    assert "HOME" not in names and "TMPDIR" in names


def test_pods_are_locked_down():
    for item in objects():
        if item["kind"] not in ("Deployment", "Job"):
            continue
        spec = item["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
        assert spec["shareProcessNamespace"] is True, "a runtime that is process 1 reaps no orphans"
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and security["capabilities"] == {"drop": ["ALL"]}
        assert not security["allowPrivilegeEscalation"]
        assert container["resources"]["limits"] == {"cpu": "1", "ephemeral-storage": "1Gi", "memory": "128Mi"}
        assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]


def test_a_stopping_pod_serves_until_proxies_drop_it_and_then_ends_its_calls():
    fit = fit_of(settings(), "ins1")
    spec = wanted_of(fit, desired(timeout_sec=100)).deployment["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pause >= 4, "the view is refreshed every 2 s, routes are read every second"
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > pause + 100
    assert {"name": "SLESS_GRACE_SEC", "value": "100"} in container["env"]
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_small_code_runs_on_its_runtimes_image():
    fit = fit_of(settings(runtime_image_python311="mirror/python:1"), "ins1")
    spec = wanted_of(fit, desired(artifact=SMALL)).deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["image"] == "mirror/python:1"
    assert {"name": "SLESS_CODE_ARCHIVE", "value": "/app/archive/code.tar.gz"} in container["env"]
    assert {"name": "archive", "configMap": {"name": "code-abc"}} in spec["volumes"]


def test_settings_reach_the_pod():
    fit = fit_of(settings(**FULL), "ins1")
    wanted = wanted_of(fit, desired())
    spec = wanted.deployment["spec"]["template"]["spec"]
    assert spec["runtimeClassName"] == "gvisor" and spec["nodeSelector"] == {"pool": "functions"}
    assert spec["tolerations"] == [{"key": "functions", "operator": "Exists"}] and spec["imagePullSecrets"] == [{"name": "sless-pull"}]
    (ingress,) = wanted.after
    assert ingress["spec"]["rules"][0]["host"] == f"hello-{TENANT}.fn.example.org"
    assert ingress["metadata"]["namespace"] == "sless" and ingress["spec"]["tls"][0]["secretName"] == "wildcard"


def test_no_ingress_with_an_external_url_or_without_a_host():
    for more in ({}, {"ingress_host": "fn.example.org", "external_url": "https://sless.example.org"}):
        assert wanted_of(fit_of(settings(**more), "ins1"), desired()).after == ()


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"tolerations": "{"}, "SLESS_TOLERATIONS"),
        ({"tolerations": '["a"]'}, "SLESS_TOLERATIONS"),
        ({"node_selector": ("pool",)}, "SLESS_NODE_SELECTOR"),
    ],
)
def test_the_error_names_an_invalid_setting(more, name):
    with pytest.raises(ConfigError, match=name):
        placement_of(settings(**more))


def test_the_error_names_an_invalid_egress_rule():
    with pytest.raises(ConfigError, match="SLESS_EGRESS_ALLOW"):
        tenant_policy_of(settings(egress_allow=("10.0.0.0/8:x",)), "ins1")


def test_tenants_pods_reach_only_public_and_allowed_addresses():
    policies = [item for item in tenant_manifests(tenant_policy_of(settings(**FULL), "ins1"), TENANT) if item["kind"] == "NetworkPolicy"]
    (policy,) = policies
    spec = policy["spec"]
    assert spec["podSelector"] == {} and spec["policyTypes"] == ["Ingress", "Egress"]
    (ingress,) = spec["ingress"]
    (source,) = ingress["from"]
    assert source["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "sless"}
    blocks = [block["ipBlock"] for rule in spec["egress"] for block in rule.get("to", ()) if "ipBlock" in block]
    assert [tuple(block["except"]) for block in blocks[:2]] == [BLOCKED_4, BLOCKED_6], "the list for sless's own connections"
    assert [block["cidr"] for block in blocks[2:]] == ["10.1.2.3/32", "fd00::/8"]


def test_a_tenants_namespace_is_restricted_and_has_a_quota():
    namespace, quota, *_ = tenant_manifests(tenant_policy_of(settings(tenant_pods=7), "ins1"), TENANT)
    assert namespace["metadata"]["name"] == "sless-fn-0123456789abcdef"
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert quota["spec"]["hard"]["pods"] == "7" and quota["spec"]["hard"]["limits.memory"] == "4Gi"


def test_a_run_has_its_event_in_a_file_and_a_deadline():
    job = job_of(fit_of(settings(), "ins1"), run())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    env = {item["name"]: item.get("value") for item in container["env"]}
    assert (env["SLESS_MODE"], env["SLESS_INVOCATION_ID"], env["SLESS_TRIGGER"]) == ("job", "i0123456789", "job")
    assert env["SLESS_EVENT_FILE"] == "/app/event/event.json"
    assert job["spec"]["backoffLimit"] == 0 and job["spec"]["activeDeadlineSeconds"] > 30 and job["spec"]["ttlSecondsAfterFinished"]


def test_the_template_hash_depends_on_the_settings():
    fit = fit_of(settings(), "ins1")
    assert fit.template_hash == fit_of(settings(), "ins1").template_hash
    for more in ({"runtime_class": "gvisor"}, {"runtime_image_python311": "x"}, {"function_cpu": "2"}, {"ingress_host": "h"}):
        assert fit.template_hash != fit_of(settings(**more), "ins1").template_hash
    assert replace(fit, installation="other").template_hash != fit.template_hash


def test_the_deadline_of_a_job_is_earlier_than_that_of_the_call():
    deadline = job_of(fit_of(settings(), "ins1"), run(timeout_sec=1))["spec"]["activeDeadlineSeconds"]
    assert deadline < 1 + oneoff.GRACE_SEC


def test_functions_listen_on_ipv6_if_sless_does():
    """Pods of an IPv6-only cluster have no other address."""

    def addresses(**more) -> list[str]:
        deployment = wanted_of(fit_of(settings(**more), "ins1"), desired()).deployment
        env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        return [item["value"] for item in env if item["name"] == "SLESS_ADDRESS"]

    assert (addresses(), addresses(host="0.0.0.0"), addresses(host="::")) == ([], [], ["::"])


def test_tenants_never_get_the_push_secret():
    push, pull = Settings(registry_secret="push"), Settings(registry_secret="push", registry_pull_secret="pull")
    assert [tenant_policy_of(settings, "i").pull_secret for settings in (Settings(), push, pull)] == ["", "", "pull"]
    assert [placement_of(settings).pull_secret for settings in (Settings(), push, pull)] == ["", "", "sless-pull"]
