"""Plans for sample configurations; the attributes match the server's schema."""

import threading
from typing import Any

import pytest
from tf.types import Unknown

from sless.domain import schemas
from sless.terraform.attributes import default_concurrency
from sless.terraform.connection import Connection
from sless.terraform.fields import Field, Role, Values
from sless.terraform.planning import chosen_of, plan_change, private_of
from sless.terraform.provider import DATA_SOURCES, RESOURCES
from sless.terraform.resource import Change, Resource
from sless.terraform.waiting import Waiter
from sless.terraform.workload import Function, counts_of
from sless.terraform.write_only import HASH, hash_field, hash_of, hides_write_only

KINDS = {resource.kind: resource for resource in RESOURCES}
NOT_SETTINGS = {"rotate_key"}
"""A request to the server, not a state that Terraform could hold."""


class Made(Resource):
    kind = "made"
    fields = (
        Field(name="name", text="", role=Role.REQUIRED, replaces=True),
        Field(name="size", text="", role=Role.DEFAULTED, default=5, zero=True),
        Field(name="most", text="", role=Role.ASSIGNED),
        Field(name="least", text="", role=Role.ASSIGNED, follows=("most",)),
        Field(name="password", text="", write_only=True),
        Field(name="wait", text="", role=Role.DEFAULTED, default=300, local=True),
        Field(name="phase", text="", role=Role.STATUS),
        Field(name="id", text="", role=Role.STATUS, stable=True),
        hash_field("password"),
    )

    def __init__(self, terraform_version: str = "1.11.4") -> None:
        connection = Connection({})
        connection.hides_write_only = hides_write_only(terraform_version)
        super().__init__(connection, threading.Event())


PRIOR = {"name": "a", "size": 7, "most": 5, "least": 1, "wait": 300, "phase": "Ready", "id": "a"}


@pytest.mark.parametrize(
    ("prior", "config", "planned", "replaces"),
    [
        (None, {"name": "a"}, {"size": 5, "wait": 300, "phase": Unknown, "id": Unknown}, ()),
        (None, {"name": "a", "size": 0}, {"size": 0}, ()),
        (None, {"name": "a", "least": 2}, {"most": Unknown, "least": 2}, ()),
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


@pytest.mark.parametrize(
    ("chosen", "config", "least"),
    [
        ({"most": 5, "least": 1}, {}, 1),
        ({"most": 5, "least": 1}, {"least": 3}, 3),
        ({"most": 5}, {}, Unknown),  # removed from the configuration
        ({"most": 5, "least": 0}, {}, Unknown),  # changed elsewhere
        ({"most": 5, "least": 1}, {"most": 9}, Unknown),  # the server's minimum depends on the maximum
        (None, {}, 1),  # imported
    ],
)
def test_the_server_chooses_again_for_values_that_it_did_not_choose(chosen: Values | None, config: Values, least: object):
    plan = plan_change(Made(), PRIOR, {"name": "a", "size": 7} | config, chosen)
    assert plan.state["least"] == least
    assert (plan.state["phase"] is Unknown) == (plan.state != PRIOR | {"password": None, HASH: None})


def test_values_chosen_by_the_server_are_kept_with_the_state():
    private = private_of(Made.fields, {"most": 7}, {"most": 7, "least": 2})
    assert chosen_of(private) == {"least": 2}
    assert [chosen_of(text) for text in (b"", b'{"schema_version":"1"}', b"\xff", b"[]")] == [None] * 4


def test_a_changed_secret_is_a_difference_although_it_is_not_stored():
    resource, config = Made(), {"name": "a", "size": 7, "password": "one"}
    made = plan_change(resource, None, config).state
    assert (made["password"], made[HASH]) == (None, Unknown)
    kept = PRIOR | {"password": None, HASH: hash_of({"password": "one"})}
    assert "one" not in kept[HASH]
    assert plan_change(resource, kept, config).state == kept
    for other in ("two", Unknown):
        changed = plan_change(resource, kept, config | {"password": other}).state
        assert (changed["password"], changed[HASH], changed["phase"]) == (None, Unknown, Unknown)
    removed = plan_change(resource, kept, config | {"password": None}).state
    assert (removed[HASH], removed["phase"]) == (None, Unknown)


@pytest.mark.parametrize("version", ["1.5.7", "1.10.5", ""])
def test_terraform_before_1_11_keeps_secrets_itself(version: str):
    resource, config = Made(version), {"name": "a", "size": 7, "password": "one", "timeouts": None}
    assert plan_change(resource, None, config).state["password"] == "one"
    state = resource.upgrade(1, PRIOR | {"password": "one"})
    assert plan_change(resource, state, config).state == state | {"password": "one"}
    newer = Made("1.12.0-beta1").upgrade(1, state)
    assert (newer["password"], newer[HASH]) == (None, state[HASH])
    assert plan_change(Made(), newer, config).state[HASH] == newer[HASH], "the first plan with a newer Terraform changes nothing"


@pytest.mark.parametrize(
    ("prior", "planned", "config", "spec"),
    [
        ({}, {"size": 5, "least": Unknown, HASH: "x"}, {"password": "one"}, {"name": "a", "size": 5, "password": "one"}),
        (PRIOR, PRIOR | {"least": Unknown}, {}, {"least": None}),
        (PRIOR | {HASH: "x"}, PRIOR | {HASH: "x"}, {"password": "one"}, {}),
        (PRIOR | {HASH: "x"}, PRIOR | {HASH: "y"}, {"password": "two"}, {"password": "two"}),
        (PRIOR | {HASH: "x"}, PRIOR, {}, {"password": None}),
    ],
)
def test_a_request_has_the_changed_fields(prior: Values, planned: Values, config: Values, spec: Values):
    client: Any = None  # no request is sent
    change = Change(client, Waiter(threading.Event()), config, {"name": "a", HASH: None} | planned, prior)
    assert Made().spec_of(change) == spec


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


@pytest.mark.parametrize(("event_format", "concurrency"), [("sless", 50), ("aws-http-v1", 1), ("aws-http-v2", 1), (Unknown, Unknown)])
def test_the_concurrency_of_a_lambda_handler_is_one(event_format: object, concurrency: object):
    assert default_concurrency({"event_format": event_format}) == concurrency


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
