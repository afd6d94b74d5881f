"""Everything the server's account may do in a cluster: the rules of the chart, and the policy that limits where it may make changes."""

import pytest

from tests.integration.helm.chart import NAMESPACE
from tests.kube.chart_rights import rights_of_chart
from tests.kube.recorder import Request, Rules

WRITES = ("create", "update", "patch", "delete", "deletecollection")
MANAGED = "create delete list patch watch"
EVERYWHERE = {
    "namespaces": MANAGED,
    "services": MANAGED,
    "secrets": MANAGED,
    "serviceaccounts": "create list patch watch",
    "resourcequotas": "create list patch watch",
    "limitranges": "create list patch watch",
    "configmaps": "create delete list watch",
    "pods": "delete list patch watch",
    "pods/log": "get",
    "events": "list",
    "deployments.apps": MANAGED,
    "jobs.batch": "create delete get list patch watch",
    "networkpolicies.networking.k8s.io": "create list patch watch",
    "ingresses.networking.k8s.io": "list watch",
}
OWN = {"secrets": "get", "ingresses.networking.k8s.io": "create delete patch"}


@pytest.fixture(scope="module")
def rights():
    return rights_of_chart(NAMESPACE, {})


@pytest.fixture(scope="module")
def rules(rights):
    return Rules(rights.cluster, rights.local, rights.writable)


def listed(rules_of_role):
    found: dict[str, set[str]] = {}
    for rule in rules_of_role:
        assert set(rule) == {"apiGroups", "resources", "verbs"}, rule
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault(f"{resource}.{group}".rstrip("."), set()).update(rule["verbs"])
    return {name: " ".join(sorted(verbs)) for name, verbs in found.items()}


def request(verb: str, resource: str, namespace: str, group: str = "", name: str = "x") -> Request:
    resource, _, part = resource.partition("/")
    return Request(
        verb=verb,
        group=group,
        resource=resource,
        subresource=part,
        namespace=namespace,
        name=name,
        user="u",
        manager="",
        path="",
        query="",
    )


def test_the_account_has_exactly_these_rights(rights):
    """A new line or verb here is a decision: no roles, no exec, no nodes, no volumes, no wildcards."""
    assert listed(rights.cluster) == EVERYWHERE
    assert {namespace: listed(rules) for namespace, rules in rights.local.items()} == {NAMESPACE: OWN}


def test_secrets_are_read_by_name_in_its_own_namespace_only(rules):
    assert rules.allow(request("get", "secrets", NAMESPACE))
    assert not rules.allow(request("get", "secrets", "kube-system"))
    assert not rules.allow(request("get", "secrets", "sless-fn-0123456789abcdef"))


@pytest.mark.parametrize("namespace", ["kube-system", "default", "cloud2", "sless", "xsless-fn-1", f"{NAMESPACE}-builds2"])
def test_nothing_is_changed_in_other_namespaces(rights, rules, namespace):
    allowed = [
        (verb, resource)
        for verb, group, resource in rights.all()
        if verb in WRITES and rules.allow(request(verb, resource, "" if resource == "namespaces" else namespace, group, namespace))
    ]
    assert allowed == []


@pytest.mark.parametrize("namespace", ["sless-fn-0123456789abcdef", f"{NAMESPACE}-builds"])
def test_tenants_and_builds_are_managed(rules, namespace):
    assert rules.allow(request("create", "secrets", namespace)) and rules.allow(request("delete", "jobs", namespace, "batch"))
    assert rules.allow(request("delete", "namespaces", "", name=namespace))


def test_the_policy_can_be_left_out_and_follows_the_values():
    assert rights_of_chart(NAMESPACE, {"rbac": {"admissionPolicy": False}}).writable == []
    assert rights_of_chart("faas", {"builder": {"namespace": "b"}}).writable == ["sless-fn-*", "faas", "b"]
