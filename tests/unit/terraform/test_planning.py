"""Plans for sample configurations; the attributes match the server's schema."""

import pytest
from tf.types import Unknown

from sless.domain import schemas
from sless.terraform.fields import Field, Role, Values
from sless.terraform.planning import plan_change
from sless.terraform.provider import DATA_SOURCES, RESOURCES
from sless.terraform.resource import Resource
from sless.terraform.workload import Function, counts_of

KINDS = {resource.kind: resource for resource in RESOURCES}
NOT_SETTINGS = {"rotate_key"}
"""An order to the server, and no state that Terraform could hold."""


class Made(Resource):
    kind = "made"
    fields = (
        Field(name="name", text="", role=Role.REQUIRED, replaces=True),
        Field(name="size", text="", role=Role.DEFAULTED, default=5, zero=True),
        Field(name="wait", text="", role=Role.DEFAULTED, default=300, local=True),
        Field(name="phase", text="", role=Role.STATUS),
        Field(name="id", text="", role=Role.STATUS, stable=True),
    )

    def __init__(self) -> None:
        pass


PRIOR = {"name": "a", "size": 7, "wait": 300, "phase": "Ready", "id": "a"}


@pytest.mark.parametrize(
    ("prior", "config", "planned", "replaces"),
    [
        (None, {"name": "a"}, {"size": 5, "wait": 300, "phase": Unknown, "id": Unknown}, ()),
        (None, {"name": "a", "size": 0}, {"size": 0}, ()),
        (PRIOR, {"name": "a", "size": 7}, PRIOR, ()),
        (PRIOR, {"name": "a"}, {"size": 5, "phase": Unknown, "id": "a"}, ()),
        (PRIOR, {"name": "a", "size": Unknown}, {"size": Unknown, "phase": Unknown}, ()),
        (PRIOR, {"name": "a", "size": 7, "wait": 10}, {"wait": 10, "phase": "Ready"}, ()),
        (PRIOR, {"name": "b", "size": 7}, {"name": "b", "id": Unknown}, ("name",)),
        (PRIOR | {"size": 5}, {"name": "a", "size": 0}, {"size": 5, "phase": "Ready"}, ()),
        (PRIOR | {"size": 0}, {"name": "a"}, {"size": 0, "phase": "Ready"}, ()),
    ],
)
def test_a_plan(prior: Values | None, config: Values, planned: Values, replaces: tuple[str, ...]):
    plan = plan_change(Made(), prior, config)
    assert {name: plan.state[name] for name in planned} == planned
    assert plan.replaces == replaces


def test_another_version_of_a_language_does_not_replace_the_resource():
    resource = Function.__new__(Function)
    runtime = next(item for item in Function.fields if item.name == "runtime")
    assert resource.needs_replacement(runtime, {"runtime": "python3.11"}, {"runtime": "nodejs20"})
    assert not resource.needs_replacement(runtime, {"runtime": "python3.11"}, {"runtime": "python3.11"})


@pytest.mark.parametrize("kind", ["function", "service", "job"])
def test_every_server_setting_is_an_attribute_with_its_default(kind):
    schema = {"function": schemas.FUNCTION, "service": schemas.SERVICE, "job": schemas.JOB}[kind]
    attributes = {item.source: item for item in KINDS[kind].fields if item.is_sent}
    assert attributes.keys() == schema.keys()
    for name, item in attributes.items():
        if item.role is Role.DEFAULTED and not callable(item.default) and "default" in schema[name]:
            assert item.default == schema[name]["default"], name


def test_every_trigger_setting_is_an_attribute():
    attributes = {item.source for item in KINDS["trigger"].fields if item.is_sent}
    wanted = set(schemas.TRIGGER_COMMON) | {name for fields in schemas.TRIGGER_FIELDS.values() for name in fields}
    assert attributes | {"function"} == wanted - NOT_SETTINGS


@pytest.mark.parametrize("kind", [*RESOURCES, *DATA_SOURCES])
def test_attributes_are_unique_and_described(kind):
    names = [item.name for item in kind.fields]
    assert len(names) == len(set(names))
    assert all(item.text.endswith((".", ")")) for item in kind.fields), [item.name for item in kind.fields if not item.text.endswith(".")]
    assert kind.text.endswith(".")


@pytest.mark.parametrize(
    ("config", "replicas", "least", "most"),
    [
        ({}, 1, 1, 1),
        ({"replicas": 3}, 3, 3, 3),
        ({"replicas": Unknown}, Unknown, Unknown, Unknown),
        ({"min_instances": 0}, None, 0, 5),
        ({"max_instances": 3}, None, 1, 3),
        ({"min_instances": 7}, None, 7, 7),
        ({"min_instances": Unknown}, None, Unknown, Unknown),
    ],
)
def test_the_instances_of_a_service_are_replicas_or_bounds(config: Values, replicas: object, least: object, most: object):
    assert counts_of(config) == {"replicas": replicas, "min_instances": least, "max_instances": most}
