"""Server-side apply of the stand-in. Every case matches Kubernetes 1.30 and later."""

import copy
from typing import Any

import pytest

from tests.kube.errors import Refused
from tests.kube.kinds import kind_of
from tests.kube.registry import CONTROLLER, DeleteOptions, Registry, Writer

NS = "tenant"
DEPLOYMENT, CONFIG_MAP, JOB = kind_of("Deployment"), kind_of("ConfigMap"), kind_of("Job")
US, OTHER = Writer(manager="us"), Writer(manager="other")


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    for kind, namespace, name in (("Namespace", "", NS), ("ServiceAccount", NS, "default")):
        item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        registry.create(kind_of(kind), namespace, item, CONTROLLER)
    return registry


def config_map(data: dict[str, str], **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": labels}, "data": data}


def deployment(**container: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "i:1", **container}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def apply(registry: Registry, item: dict[str, Any], writer: Writer = US) -> dict[str, Any]:
    kind = kind_of(item["kind"])
    return registry.apply(kind, (NS, item["metadata"]["name"]), copy.deepcopy(item), writer)[0]


def main_of(item: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = item["spec"]["template"]["spec"]["containers"][0]
    return found


def test_applying_again_changes_nothing(registry):
    item = deployment(resources={"limits": {"memory": "1024Mi", "cpu": "0.5"}}, env=[{"name": "A", "value": "1"}])
    first = apply(registry, item)
    assert main_of(first)["resources"]["limits"] == {"memory": "1Gi", "cpu": "500m"}, "quantities are stored in canonical form"
    assert apply(registry, item)["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_fields_no_longer_applied_go_and_those_of_others_stay(registry):
    apply(registry, config_map({"a": "1", "b": "2"}, ours="x", gone="y"))
    apply(registry, config_map({"c": "3"}), OTHER)
    found = apply(registry, config_map({"a": "1"}, ours="x"))
    assert found["data"] == {"a": "1", "c": "3"} and found["metadata"]["labels"] == {"ours": "x"}


def test_a_shared_field_stays_until_both_managers_drop_it(registry):
    apply(registry, config_map({"a": "1", "b": "2"}))
    apply(registry, config_map({"a": "1"}), OTHER)
    assert apply(registry, config_map({"b": "2"}))["data"] == {"a": "1", "b": "2"}
    assert apply(registry, config_map({}), OTHER)["data"] == {"b": "2"}


def test_another_value_is_a_conflict_unless_forced(registry):
    apply(registry, config_map({"a": "1"}))
    with pytest.raises(Refused, match=r'conflict with "us": \.data\.a') as refused:
        apply(registry, config_map({"a": "2"}), OTHER)
    assert refused.value.code == 409 and refused.value.details["causes"][0]["reason"] == "FieldManagerConflict"
    found = apply(registry, config_map({"a": "2"}), Writer(manager="other", force=True))
    assert found["data"] == {"a": "2"}
    # The previous manager no longer owns the field, so it removes nothing.
    assert apply(registry, config_map({}))["data"] == {"a": "2"}


def test_an_update_owns_what_it_changes(registry):
    apply(registry, config_map({"a": "1", "b": "2"}))
    live = copy.deepcopy(registry.get("ConfigMap", NS, "c"))
    registry.replace(CONFIG_MAP, NS, "c", {**live, "data": {"a": "9", "b": "2"}}, OTHER)
    with pytest.raises(Refused, match="conflict"):
        apply(registry, config_map({"a": "1", "b": "2"}))


def test_a_structure_is_removed_with_its_defaults(registry):
    apply(registry, deployment(readinessProbe={"httpGet": {"path": "/", "port": 8080}}))
    assert main_of(registry.get("Deployment", NS, "d"))["readinessProbe"]["periodSeconds"] == 10
    assert "readinessProbe" not in main_of(apply(registry, deployment()))


def test_list_items_are_matched_by_key(registry):
    apply(registry, deployment(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], ports=[{"containerPort": 80}]))
    apply(registry, deployment_of_env({"C": "3"}), OTHER)
    found = main_of(apply(registry, deployment(env=[{"name": "B", "value": "5"}], ports=[{"containerPort": 80}])))
    assert {one["name"]: one["value"] for one in found["env"]} == {"B": "5", "C": "3"}
    assert found["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def deployment_of_env(values: dict[str, str]) -> dict[str, Any]:
    containers = [{"name": "main", "env": [{"name": name, "value": value} for name, value in values.items()]}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def test_a_list_without_keys_is_one_value(registry):
    apply(registry, deployment(args=["a", "b"]))
    assert main_of(apply(registry, deployment(args=["c"])))["args"] == ["c"]


def test_apply_never_removes_string_data(registry):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "1"}}
    apply(registry, secret)
    assert apply(registry, {**secret, "stringData": {"b": "2"}})["data"].keys() == {"a", "b"}


def test_the_generation_counts_changes_of_the_spec(registry):
    assert apply(registry, deployment())["metadata"]["generation"] == 1
    labelled = deployment()
    labelled["metadata"]["labels"] = {"x": "y"}
    assert apply(registry, labelled)["metadata"]["generation"] == 1
    registry.write_status(registry.get("Deployment", NS, "d"), {"readyReplicas": 1})
    changed = deployment(image="i:2")
    assert apply(registry, changed)["metadata"]["generation"] == 2
    assert registry.get("Deployment", NS, "d")["status"] == {"readyReplicas": 1}


@pytest.mark.parametrize(
    ("kind", "change", "text"),
    [
        ("Deployment", lambda item: item["spec"]["selector"].update(matchLabels={"app": "a", "x": "y"}), "selector"),
        ("Job", lambda item: item["spec"]["template"]["spec"]["containers"][0].update(image="i:2"), "template"),
        ("ConfigMap", lambda item: item["data"].update(a="2"), "immutable"),
    ],
)
def test_immutable_fields(registry, kind, change, text):
    item = {
        "Deployment": deployment(), "ConfigMap": {**config_map({"a": "1"}), "immutable": True},
        "Job": {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i:1"}]}}},
        },
    }[kind]  # fmt: skip
    apply(registry, item)
    change(item)
    if kind == "Deployment":
        item["spec"]["template"]["metadata"]["labels"] = {"app": "a", "x": "y"}
    with pytest.raises(Refused, match=text) as refused:
        apply(registry, item)
    assert refused.value.code == 422


def test_an_old_version_is_a_conflict(registry):
    old = copy.deepcopy(apply(registry, config_map({"a": "1"})))
    apply(registry, config_map({"a": "2"}))
    with pytest.raises(Refused, match="the object has been modified") as refused:
        registry.replace(CONFIG_MAP, NS, "c", old, US)
    assert refused.value.code == 409


def test_names_are_unique_and_namespaces_must_exist_and_not_terminate(registry):
    registry.create(CONFIG_MAP, NS, config_map({}), US)
    with pytest.raises(Refused) as taken:
        registry.create(CONFIG_MAP, NS, config_map({}), US)
    assert (taken.value.code, taken.value.reason) == (409, "AlreadyExists")
    with pytest.raises(Refused) as nowhere:
        registry.create(CONFIG_MAP, "nowhere", config_map({}), US)
    assert nowhere.value.code == 404
    registry.delete(kind_of("Namespace"), "", NS, DeleteOptions())
    with pytest.raises(Refused, match="because it is being terminated") as going:
        registry.create(CONFIG_MAP, NS, {**config_map({}), "metadata": {"name": "later"}}, US)
    assert going.value.code == 403


def test_a_finalizer_delays_deletion(registry):
    item = config_map({})
    item["metadata"]["finalizers"] = ["example.com/hold"]
    registry.create(CONFIG_MAP, NS, item, US)
    left, gone = registry.delete(CONFIG_MAP, NS, "c", DeleteOptions())
    assert not gone and left["metadata"]["deletionTimestamp"]
    registry.write_metadata(left, finalizers=[])
    assert registry.find("ConfigMap", NS, "c") is None


def test_a_job_deleted_without_a_policy_leaves_its_pods(registry):
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i:1"}]}}},
    }  # fmt: skip
    made = registry.create(JOB, NS, job, US)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": made["metadata"]["uid"]}
    item = config_map({})
    item["metadata"]["ownerReferences"] = [owner]
    registry.create(CONFIG_MAP, NS, item, US)
    registry.delete(JOB, NS, "j", DeleteOptions())
    assert "ownerReferences" not in registry.get("ConfigMap", NS, "c")["metadata"]
