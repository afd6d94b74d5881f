"""The chart renders valid, safe objects for every supported Kubernetes version and covers all sless settings."""

import base64
import json
import re
import subprocess
import sys
from dataclasses import fields

import helm_python
import kubernetes_validate
import pytest
import yaml

from sless._version import __version__
from sless.config import PREFIX, Settings, load
from sless.kube.names import SERVER_LABEL
from sless.store import FixedKeys, Keyring
from tests.integration.helm.chart import (
    CHART,
    DATABASE,
    EXISTING,
    FULL,
    MINIMAL,
    NAMESPACE,
    S3,
    VALUES,
    environment_of,
    kinds_of,
    notes_of,
    one,
    pod_of,
    render,
)  # fmt: skip

KUBERNETES = ("1.30", "1.37")
FOREIGN_KINDS = {"ServiceMonitor", "PrometheusRule"}
"""From the Prometheus operator; the Kubernetes schemas do not cover it."""


@pytest.fixture(scope="module")
def rendered():
    return {name: render(values) for name, values in VALUES.items()}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("version", KUBERNETES)
def test_lint_finds_nothing(values, version):
    report = helm_python.lint(CHART, values=VALUES[values], strict=True, kube_version=f"v{version}.0", namespace=NAMESPACE)
    assert report["errors"] == []
    assert [item for item in report["messages"] if item["severity"] >= 2] == []


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_valid(rendered, values, version):
    checked = [item for item in rendered[values] if item["kind"] not in FOREIGN_KINDS]
    assert len(checked) >= 4
    for item in checked:
        kubernetes_validate.validate(item, version, strict=True)


def test_the_default_is_one_pod_with_sqlite_on_a_volume(rendered):
    objects = rendered["default"]
    assert kinds_of(objects) == [
        "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "PersistentVolumeClaim", "Pod", "Role", "RoleBinding", "Secret",
        "Secret", "Service", "ServiceAccount", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    ]  # fmt: skip
    deployment = one(objects, "Deployment")["spec"]
    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}
    assert one(objects, "PersistentVolumeClaim")["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    volumes = {item["name"]: item for item in pod_of(objects)["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "sless"}


def test_sless_starts_with_the_default_environment(rendered):
    environment = environment_of(rendered["default"])
    settings = load({**environment, "SLESS_JWT_SECRET": "x" * 32, "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert (settings.backend, settings.auth_mode, settings.host, settings.port) == ("kubernetes", "secret", "0.0.0.0", 9090)
    assert settings.pod_namespace == NAMESPACE
    assert settings.builder_namespace == f"{NAMESPACE}-builds"
    assert settings.internal_url == settings.external_url == f"http://sless.{NAMESPACE}.svc:9090"
    assert (settings.database_url, settings.s3_endpoint, settings.registry_host) == ("", "", "")


def test_every_value_reaches_its_setting(rendered):
    settings = load({**environment_of(rendered["full"]), "SLESS_JWT_SECRET": "s" * 40})
    assert settings.database_url == DATABASE["database"]["url"]
    assert (settings.s3_endpoint, settings.s3_access_key, settings.s3_secret_key) == ("https://s3.example.net", "ak-s3", "sk-s3")
    assert settings.operator_subs == ("root", "ops")
    assert settings.outbound_allow == ("10.1.0.0/16:5672",)
    assert settings.builder_args == ("--log-level=debug", "--x=y")
    assert settings.node_selector == ("arch=amd64", "pool=fn")
    assert json.loads(settings.builder_pod) == FULL["builder"]["pod"]
    assert (settings.builder_namespace, settings.builder_memory, settings.builder_cpu) == ("builds", "4Gi", "3")
    assert json.loads(settings.tolerations) == FULL["functions"]["tolerations"]
    assert (settings.registry_secret, settings.registry_insecure) == ("sless-registry", True)
    assert (settings.registry_pull_secret, settings.builder_pull_secret) == ("pull-only", "base-images")
    assert (settings.tenant_pods, settings.tenant_memory, settings.tenant_cpu, settings.function_cpu) == (7, "9Gi", "3", "2")
    assert (settings.max_zip_bytes, settings.history_per_function, settings.instance_wait_sec) == (67108864, 2000000, 0)
    assert settings.jwt_public_key == FULL["auth"]["publicKey"]
    assert (settings.host, settings.port, settings.graceful_timeout_sec) == ("::", 8080, 60)


def test_each_setting_can_be_set_in_exactly_one_place(rendered):
    """Either as a named value or under `settings`, as listed in the schema; values.yaml documents it."""
    names = {item.name for item in fields(Settings)}
    listed = set(json.loads((CHART / "values.schema.json").read_text())["properties"]["settings"]["properties"])
    reached = {name.removeprefix(PREFIX).lower() for name in environment_of(rendered["full"]) if name.startswith(PREFIX)}
    assert reached == names
    assert set(FULL["settings"]) == listed
    text = (CHART / "values.yaml").read_text()
    assert sorted(name for name in names if not re.search(rf"\bSLESS_{name.upper()}\b", text)) == []


@pytest.mark.parametrize("name", [item.name for item in fields(Settings) if item.metadata["secret"]])
def test_secrets_are_never_in_a_config_map(rendered, name):
    assert name not in json.loads((CHART / "values.schema.json").read_text())["properties"]["settings"]["properties"]
    for objects in rendered.values():
        assert all(PREFIX + name.upper() not in item["data"] for item in objects if item["kind"] == "ConfigMap")


def test_no_secret_is_readable_outside_a_secret(rendered):
    secrets = ("pw-database", "ak-s3", "sk-s3", "pw-rabbit", "pw-registry", "pw-harbor", "tok-metrics", "s" * 40, "bmV3LW5ldy")
    outside = json.dumps([item for item in rendered["full"] if item["kind"] != "Secret"])
    # Not stringData: keys that an upgrade removes there stay in the cluster, and so in the server's environment.
    assert not [item for item in rendered["full"] if "stringData" in item]
    values = [value for item in rendered["full"] if item["kind"] == "Secret" for value in item["data"].values()]
    inside = b"\n".join(base64.b64decode(value) for value in values).decode()
    assert [text for text in secrets if text in outside] == []
    assert [text for text in secrets[:4] if text not in inside] == []


def test_existing_secrets_are_referenced(rendered):
    environment = environment_of(rendered["existing"])
    assert environment["SLESS_JWT_SECRET"] == "jwt/jwt-secret"
    assert environment["SLESS_ENCRYPTION_KEYS"] == "enc/encryption-keys"
    assert environment["SLESS_DATABASE_URL"] == "pg/url"
    assert environment["SLESS_S3_SECRET_KEY"] == "s3/secret-key"
    assert environment["SLESS_RABBITMQ_URL"] == "mq/url"
    assert environment["SLESS_HARBOR_PASSWORD"] == "harbor/password"
    assert environment["SLESS_METRICS_TOKEN"] == "m/metrics-token"
    assert environment["SLESS_S3_USE_SSL"] == "false"
    assert [item for item in rendered["existing"] if item["kind"] == "Secret"] == []


def test_the_encryption_key_is_generated_once_and_cannot_be_replaced(rendered):
    """An object of another rendering has another key: the cluster must refuse it, as the first one is needed to read the database."""
    (secret,) = [item for item in rendered["default"] if item["metadata"]["name"] == "sless-encryption"]
    assert (secret["immutable"], secret["metadata"]["annotations"]["helm.sh/resource-policy"]) == (True, "keep")
    key = base64.b64decode(secret["data"]["encryption-keys"]).decode()
    assert Keyring(FixedKeys([key])).ids
    (given,) = [item for item in rendered["full"] if item["metadata"]["name"] == "sless-encryption"]
    assert "immutable" not in given
    assert base64.b64decode(given["data"]["encryption-keys"]).decode() == FULL["encryption"]["keys"].replace(" ", "")
    assert "sless-encryption" not in {item["metadata"]["name"] for item in rendered["existing"]}


def test_pods_have_minimal_privileges(rendered):
    for objects in rendered.values():
        for pod in (pod_of(objects), one(objects, "Pod", "sless-test")["spec"]):
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["runAsUser"] == 10001
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert pod["enableServiceLinks"] is False
            (container,) = pod["containers"]
            context = container["securityContext"]
            assert context == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
            assert {"/tmp", "/data"} <= {item["mountPath"] for item in container["volumeMounts"]}


def test_runtime_images_are_pulled_in_advance_when_enabled(rendered):
    assert not any(item["kind"] == "DaemonSet" for item in rendered["default"])
    pod = next(item for item in rendered["full"] if item["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    assert {item["name"]: item["image"] for item in pod["containers"]} == FULL["runtimeImages"]
    assert pod["nodeSelector"] == FULL["functions"]["nodeSelector"] and pod["tolerations"] == FULL["functions"]["tolerations"]
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["automountServiceAccountToken"] is False
    assert all(item["resources"]["limits"] == {"memory": "16Mi"} for item in pod["containers"])


def test_replicas_use_rolling_updates_without_a_volume(rendered):
    deployment = one(rendered["full"], "Deployment")["spec"]
    assert deployment["replicas"] == 3
    assert deployment["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert "PersistentVolumeClaim" not in kinds_of(rendered["full"])
    volumes = pod_of(rendered["full"])["volumes"]
    assert {"name": "data", "emptyDir": {"sizeLimit": "20Gi"}} in volumes and {"name": "tmp", "emptyDir": {"sizeLimit": "10Gi"}} in volumes


@pytest.mark.parametrize("values", [DATABASE, S3])
def test_external_database_or_s3_only_still_needs_the_volume(values):
    objects = render(values)
    assert "PersistentVolumeClaim" in kinds_of(objects)
    assert one(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_running_calls_get_time_to_finish(rendered):
    for values, objects in rendered.items():
        grace_sec = pod_of(objects)["terminationGracePeriodSeconds"]
        stop_sec = int(environment_of(objects)["SLESS_GRACEFUL_TIMEOUT_SEC"])
        lifecycle = pod_of(objects)["containers"][0].get("lifecycle", {"preStop": {"sleep": {"seconds": 0}}})
        assert grace_sec > stop_sec + lifecycle["preStop"]["sleep"]["seconds"], values


def test_probes_check_the_server_but_not_its_database(rendered):
    container = pod_of(rendered["default"])["containers"][0]
    assert container["startupProbe"]["httpGet"]["path"] == "/readyz"
    # Calls still reach running instances when the database is down or the disk is full.
    assert container["readinessProbe"]["httpGet"]["path"] == container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["args"] == ["serve"]


def test_maintenance_serves_nothing(rendered):
    container = pod_of(rendered["maintenance"])["containers"][0]
    assert "args" not in container
    assert not [name for name in container if name.endswith("Probe")]
    # It must end at once on SIGTERM; a container's first process only gets signals that it blocks or handles.
    script = container["command"][2]
    print_signals = "import signal; signal.sigwait = lambda awaited: print(sorted(signal.pthread_sigmask(0, ())), sorted(awaited))"
    output = subprocess.run([sys.executable, "-c", f"{print_signals}; {script}"], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["[<Signals.SIGTERM:", "15>]", "[15]"]


@pytest.mark.parametrize(
    "changed",
    [{"logLevel": "debug"}, {"settings": {"max_runs": 9}}, {"database": {"url": "postgresql://x/y"}}, {"externalUrl": "https://x"}],
)
def test_a_changed_setting_restarts_the_pod(changed):
    assert _annotations(render(changed)) != _annotations(render())


def test_an_unchanged_setting_does_not_restart_the_pod():
    """Even though Helm generates a new secret each time it renders without a cluster."""
    assert _annotations(render()) == _annotations(render())
    assert one(render(), "Secret", "sless-jwt")["data"] != one(render(), "Secret", "sless-jwt")["data"]


def _annotations(objects):
    return one(objects, "Deployment")["spec"]["template"]["metadata"]["annotations"]


def test_the_ingress_allows_long_calls_and_large_bodies(rendered):
    ingress = one(rendered["full"], "Ingress")
    annotations = ingress["metadata"]["annotations"]
    prefix = "nginx.ingress.kubernetes.io/proxy-"
    assert annotations[prefix + "read-timeout"] == annotations[prefix + "send-timeout"] == "900"
    assert annotations[prefix + "body-size"] == "64m"
    assert annotations[prefix + "buffering"] == annotations[prefix + "request-buffering"] == "off"
    assert annotations["cert-manager.io/cluster-issuer"] == "le"
    assert ingress["spec"]["tls"] == [
        {"hosts": ["fn.example.net"], "secretName": "tls"}, {"hosts": ["*.fns.example.org"], "secretName": "tls"}
    ]  # fmt: skip
    assert [rule["host"] for rule in ingress["spec"]["rules"]] == ["fn.example.net", "*.fns.example.org"]


def test_the_external_url_comes_from_the_ingress_without_own_hosts_for_functions(rendered):
    ingress = {"ingress": {"enabled": True, "host": "fn.example.net", "tls": {"enabled": True}}}
    assert environment_of(render(ingress))["SLESS_EXTERNAL_URL"] == "https://fn.example.net"
    per_function = environment_of(render({**ingress, "functions": {"ingress": {"host": "apps.example.net"}}}))
    assert "SLESS_EXTERNAL_URL" not in per_function
    assert per_function["SLESS_INGRESS_HOST"] == "apps.example.net"


def test_the_network_policy_admits_builds_and_the_chart_test(rendered):
    (rule,) = one(rendered["full"], "NetworkPolicy")["spec"]["ingress"]
    assert rule["from"] == [
        *FULL["networkPolicy"]["from"],
        {"podSelector": {"matchLabels": one(rendered["full"], "Pod", "sless-test")["metadata"]["labels"]}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "builds"}}},
    ]
    (open_rule,) = one(render({"networkPolicy": {"enabled": True}}), "NetworkPolicy")["spec"]["ingress"]
    assert "from" not in open_rule


def test_the_registry_login_names_the_host_of_the_registry():
    def servers(host):
        objects = render({"registry": {"host": host, "username": "u", "password": "p"}})
        text = one(objects, "Secret", "sless-registry")["data"][".dockerconfigjson"]
        return json.loads(base64.b64decode(text))["auths"]

    assert servers("harbor.example.net/x") == {"harbor.example.net": {"username": "u", "password": "p", "auth": "dTpw"}}
    assert list(servers("me")) == ["https://index.docker.io/v1/"]
    assert list(servers("localhost:5000")) == ["localhost:5000"]


def test_objects_of_two_releases_do_not_collide():
    def names(name, namespace):
        objects = render(FULL, name=name, namespace=namespace)
        return {(item["kind"], item["metadata"]["name"]) for item in objects if item["kind"].startswith("ClusterRole")}

    assert not names("sless", "one") & names("sless", "two")
    assert not names("blue", "one") & names("green", "one")


def test_the_test_pod_is_kept_for_its_log(rendered):
    """`helm test --logs` reads the log after the hook, when hook-succeeded would have deleted the pod."""
    assert one(rendered["default"], "Pod", "sless-test")["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation"


def test_notes_have_three_commands():
    for values in VALUES.values():
        text = notes_of(values)
        block = text.split("\n\n")[1].splitlines()
        assert [line.split()[0] for line in block] == ["kubectl", "kubectl", "helm"]
        assert f"-n {NAMESPACE} test sless" in block[2]
    assert "WARNING: persistence.enabled is false" in notes_of(MINIMAL)
    assert "WARNING" not in notes_of()


@pytest.mark.parametrize(("tls", "scheme"), [("wild", "https"), ("", "http")])
def test_notes_show_the_url_of_functions(tls, scheme):
    hosts = {"functions": {"ingress": {"host": "fn.example.org", "tlsSecret": tls}}}
    assert f"has its own host: {scheme}://NAME-NAMESPACE.fn.example.org" in notes_of(hosts)
    text = notes_of(hosts | {"externalUrl": "https://sless.example.org"})
    assert "functions at https://sless.example.org/fn/" in text
    assert "WARNING: functions.ingress.host has no effect" in text


def test_chart_and_image_have_the_version_of_sless():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
    assert pod_of(render())["containers"][0]["image"] == f"sless/sless:{__version__}"
    assert pod_of(render({"image": {"digest": "sha256:" + "a" * 64}}))["containers"][0]["image"] == "sless/sless@sha256:" + "a" * 64


BROKEN = {
    "replicas with SQLite": ({"replicas": 2, **S3}, r"replicas: 2 replicas need PostgreSQL"),
    "replicas with a folder": ({"replicas": 2, **DATABASE}, r"replicas: 2 replicas need S3"),
    "replicas with neither": ({"replicas": 2}, r"need PostgreSQL.*\n.*need S3"),
    "misspelled": ({"replica": 1}, r"replica"),
    "misspelled setting": ({"settings": {"max_rums": 1}}, r"max_rums"),
    "secret among the settings": ({"settings": {"jwt_secret": "x" * 40}}, r"jwt_secret"),
    "setting that has its own value": ({"settings": {"log_level": "debug"}}, r"log_level"),
    "wrong type": ({"replicas": "two"}, r"replicas.*integer"),
    "no images to pull": ({"functions": {"prePull": True}}, r"functions\.prePull"),
    "below the minimum": ({"settings": {"max_runs": 0}}, r"max_runs"),
    "short grace period": ({"gracefulTimeoutSec": 2}, r"gracefulTimeoutSec"),
    "unknown mode": ({"auth": {"mode": "none"}}, r"auth.mode"),
    "short secret": ({"auth": {"jwtSecret": "short"}}, r"auth\.jwtSecret: expected at least 32 bytes, found 5"),
    "functions on the console's host": (
        {"externalUrl": "https://x.org", "functions": {"url": "https://x.org:8443"}}, r"functions\.url: expected another host"),
    "encryption key": ({"encryption": {"keys": "c2hvcnQ="}}, r"encryption\.keys: expected 32 bytes .* found 8 characters"),
    "jwks without a URL": ({"auth": {"mode": "jwks"}}, r"auth\.jwksUrl"),
    "public key without a key": ({"auth": {"mode": "public-key"}}, r"auth\.publicKey"),
    "unsupported database": ({"database": {"url": "mysql://db/x"}}, r"database\.url: expected postgresql://"),
    "url and secret": ({"database": {"url": "postgresql://x/y", "existingSecret": "pg"}}, r"database\.url and existingSecret"),
    "a bucket without S3": ({"s3": {"bucket": "code"}}, r"s3\.endpoint: a bucket or keys are set"),
    "only one S3 key": ({"s3": S3["s3"] | {"secretKey": ""}}, r"s3\.accessKey and s3\.secretKey: expected both"),
    "registry user without a password": ({"registry": {"host": "r.x", "username": "u"}}, r"username and registry\.password: expected both"),
    "Harbor's password alone": ({"registry": {"harbor": {"password": "p"}}}, r"harbor\.user and registry\.harbor\.password: expected"),
    "Harbor's user and secret": (
        {"registry": {"harbor": {"user": "u", "password": "p", "existingSecret": "h"}}}, r"registry\.harbor\.user and existingSecret"),
    "label that is not text": ({"podLabels": {"a": True}}, r"podLabels"),
    "annotation that is not text": ({"podAnnotations": {"prometheus.io/port": 9090}}, r"podAnnotations"),
    "ingress without a host": ({"ingress": {"enabled": True}}, r"ingress\.host"),
    "builder beside sless": ({"builder": {"namespace": NAMESPACE}}, r"expected a namespace for builds only"),
    "egress to a host name": ({"functions": {"egressAllow": ["postgres.internal"]}}, r"egressAllow"),
    "low port": ({"service": {"port": 80}}, r"service.port"),
    "invalid size": ({"persistence": {"size": "eight"}}, r"persistence.size"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_invalid_values_are_rejected_with_a_clear_message(case):
    values, expected = BROKEN[case]
    with pytest.raises(helm_python.HelmError) as caught:
        render(values)
    text = str(caught.value).replace("/", ".")
    assert re.search(expected.replace("://", ":.."), text, re.DOTALL), text


def test_replicas_with_postgresql_and_s3_are_accepted():
    assert one(render({"replicas": 2, **DATABASE, **S3}), "Deployment")["spec"]["replicas"] == 2
    assert one(render(EXISTING), "Deployment")["spec"]["replicas"] == 2


def test_pods_carry_the_label_that_function_policies_admit(rendered):
    """The NetworkPolicy in tenants' namespaces matches on this label and the namespace of sless."""
    for values in VALUES:
        labels = one(rendered[values], "Deployment")["spec"]["template"]["metadata"]["labels"]
        assert labels[SERVER_LABEL] == "server"
