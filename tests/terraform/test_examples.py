"""The configurations of the examples. `make marathon` applies and runs that of `postgres`."""

import os
import shutil

import pytest
import requests

from tests.services.product import ROOT

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/main.tf"))
WANTED = {"hello-node", "simple-node", "simple-python", "notes-python", "hello-go", "pg-list-python", "postgres", "event-log"}


@pytest.fixture
def example(workspace, product):
    """Copies an example into the workspace. The provider takes server and token from the environment."""

    def copied(name):
        (workspace.folder / "provider.tf").unlink()
        shutil.copytree(ROOT / "examples" / name, workspace.folder, dirs_exist_ok=True)
        main = workspace.folder / "main.tf"
        given = f'provider "sless" {{\n  endpoint = "{product.url}"\n  token    = "{workspace.tenant.token}"\n}}'
        assert 'provider "sless" {}' in main.read_text()
        main.write_text(main.read_text().replace('provider "sless" {}', given))
        return workspace

    return copied


def test_the_examples_have_configurations():
    assert set(EXAMPLES) == WANTED


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_configuration_is_valid(example, name):
    example(name).ok("validate")


def test_hello_node_and_its_job(example, node_binary):
    workspace = example("hello-node")
    outputs = workspace.apply(environ={"PATH": os.environ["PATH"]})
    assert outputs["sum"] == 600
    assert requests.get(outputs["url"], timeout=10).json()["message"] == "Hello, world!"
    assert workspace.is_unchanged(), "the state beside the code is no code"
