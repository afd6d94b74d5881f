"""Pods the stand-in refuses: quota, LimitRange, Pod Security."""

from typing import Any

import pytest

from tests.kube.admission import security_violations
from tests.kube.errors import Refused
from tests.kube.kinds import kind_of
from tests.kube.quantity import canonical, value_of
from tests.kube.registry import CONTROLLER, Registry, Writer

NS = "tenant"
US = Writer(manager="us")
SAFE = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.create(kind_of("Namespace"), "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}}, CONTROLLER)
    registry.create(
        kind_of("ServiceAccount"), NS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, CONTROLLER
    )
    return registry


def make(registry: Registry, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return registry.create(kind_of(kind), NS, item, US)


def make_pod(registry: Registry, name: str, **container: Any) -> dict[str, Any]:
    return make(registry, "Pod", name, {"containers": [{"name": "main", "image": "i:1", **container}]})


def limits(memory: str) -> dict[str, Any]:
    return {"resources": {"limits": {"memory": memory}}}


def test_a_full_quota_is_reported_like_the_real_one(registry):
    make(registry, "ResourceQuota", "q", {"hard": {"pods": "2", "limits.memory": "1Gi"}})
    make_pod(registry, "a", **limits("600Mi"))
    with pytest.raises(Refused) as refused:
        make_pod(registry, "b", **limits("512Mi"))
    assert refused.value.code == 403
    assert refused.value.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: limits.memory=512Mi, used: limits.memory=600Mi, limited: limits.memory=1Gi'
    )
    make_pod(registry, "b", **limits("400Mi"))
    with pytest.raises(Refused, match="requested: pods=1, used: pods=2, limited: pods=2"):
        make_pod(registry, "c", **limits("1Mi"))


def test_a_finished_pod_does_not_count(registry):
    make(registry, "ResourceQuota", "q", {"hard": {"pods": "1"}})
    registry.write_status(make_pod(registry, "a"), {"phase": "Succeeded"})
    make_pod(registry, "b")


def test_a_quota_of_limits_requires_limits(registry):
    make(registry, "ResourceQuota", "q", {"hard": {"limits.memory": "1Gi"}})
    with pytest.raises(Refused, match=r"failed quota: q: must specify limits\.memory for: main"):
        make_pod(registry, "a")
    make(registry, "LimitRange", "l", {"limits": [{"type": "Container", "default": {"memory": "128Mi"}}]})
    made = make_pod(registry, "a")
    assert made["spec"]["containers"][0]["resources"] == {"limits": {"memory": "128Mi"}, "requests": {"memory": "128Mi"}}


def test_over_the_limit_range(registry):
    make(registry, "LimitRange", "l", {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]})
    with pytest.raises(Refused, match="maximum memory usage per Container is 1Gi, but limit is 2Gi"):
        make_pod(registry, "a", **limits("2Gi"))


def test_the_service_account_must_exist(registry):
    spec = {"serviceAccountName": "nobody", "containers": [{"name": "main", "image": "i:1"}]}
    with pytest.raises(Refused, match='serviceaccount "nobody" not found'):
        make(registry, "Pod", "a", spec)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"allowPrivilegeEscalation": None}, "allowPrivilegeEscalation != false"),
        ({"capabilities": {}}, "unrestricted capabilities"),
        ({"runAsNonRoot": False}, "runAsNonRoot != true"),
        ({"runAsUser": 0}, "runAsUser=0"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile"),
        ({"privileged": True}, "privileged"),
    ],
)
def test_pods_that_restricted_refuses(change, text):
    spec = {"containers": [{"name": "main", "securityContext": {**SAFE, **change}}]}
    assert any(text in violation for violation in security_violations(spec, "restricted"))
    assert security_violations({"containers": [{"name": "main", "securityContext": SAFE}]}, "restricted") == []


def test_host_path_volumes_are_refused():
    spec = {"containers": [{"name": "main", "securityContext": SAFE}], "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}
    assert any("volume" in violation for violation in security_violations(spec, "restricted"))
    assert security_violations(spec, "privileged") == []


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1.5Gi", "1536Mi"),
        ("2000", "2k"),
        ("0", "0"),
        ("100Mi", "100Mi"),
        ("1e3", "1k"),
    ],
)
def test_quantities_are_stored_in_canonical_form(given, stored):
    assert canonical(given) == stored and value_of(given) == value_of(stored)
