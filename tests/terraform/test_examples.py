"""The configurations of the examples. `make marathon` applies and runs that of `postgres`."""

import json
import os
import re
import shutil

import psycopg
import pytest
import requests

from tests.services.product import ROOT, wait_until

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


def test_every_example_that_should_has_a_configuration():
    assert set(EXAMPLES) == WANTED
    assert all((ROOT / "examples" / name / "README.md").is_file() for name in WANTED)


def test_the_configurations_are_valid(workspace):
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name, workspace.folder / name)
    workspace.validate(*EXAMPLES)


def test_hello_node_and_its_job(example, node_binary):
    workspace = example("hello-node")
    outputs = workspace.apply(environ={"PATH": os.environ["PATH"]})
    assert outputs["sum"] == 600
    assert requests.get(outputs["url"], timeout=10).json()["message"] == "Hello, world!"
    assert workspace.is_unchanged(), "the state next to the code is not uploaded"


def test_simple_node(example, node_binary):
    url = example("simple-node").apply()["url"]
    assert requests.get(url, params={"title": "Hello World"}, timeout=10).json() == {"title": "Hello World", "slug": "hello-world"}


@pytest.mark.slow
def test_pg_list_python_shows_tables_and_rows(example, postgres_server):
    database = postgres_server.create_database()
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE orders AS SELECT 1 AS id, 'pear' AS item UNION SELECT 2, 'plum'")
    url = example("pg-list-python").apply(environ=variables_of(database, postgres_server))["url"]
    assert requests.get(url, timeout=10).json() == {"tables": [{"table_name": "orders", "columns": 2}]}
    assert requests.get(url, params={"table": "orders", "limit": "1"}, timeout=10).json()["rows"] == [{"id": 1, "item": "pear"}]
    assert requests.get(url, params={"table": 'orders"; DROP TABLE orders; --'}, timeout=10).status_code == 404


def variables_of(database, postgres_server, **more):
    name = database.partition("@/")[2].partition("?")[0]
    return {f"TF_VAR_{key}": value for key, value in ({"pghost": str(postgres_server.folder), "pgdatabase": name} | more).items()}


@pytest.mark.slow
def test_event_log_writes_what_was_sent(example, rabbit_server, postgres_server):
    database = postgres_server.create_database()
    workspace = example("event-log")
    url = workspace.apply(environ=variables_of(database, postgres_server, amqp_url=rabbit_server.url()))["url"]
    sent = requests.post(url, json={"order": 7}, timeout=40)
    assert sent.status_code == 202, sent.text

    def rows():
        with psycopg.connect(database) as connection:
            if connection.execute("SELECT to_regclass('event_log')").fetchone()[0] is None:
                return []
            return connection.execute("SELECT message_id, body FROM event_log").fetchall()

    wait_until(lambda: bool(rows()), "the message is in the table", 60)
    assert rows() == [(sent.json()["queued"], {"order": 7})]


def test_the_flow_of_event_log_is_complete():
    """Node-RED replaces ${NAME} only where it is the whole value of a property."""
    flow = json.loads((ROOT / "examples" / "event-log" / "flow.json").read_text())
    names = {node["id"] for node in flow}
    assert {target for node in flow for targets in node.get("wires", ()) for target in targets} <= names
    assert {node.get("z", "f1") for node in flow} == {"f1"}
    assert all(re.fullmatch(r"(\$\{\w+\})?", node["url"]) for node in flow if "url" in node)
