"""`sless audit`."""

import json

from tests.unit.cli.contract_server import NAMESPACE, TIME

PATH = f"/v1/namespaces/{NAMESPACE}/audit"
ENTRY = {
    "id": 7, "time": TIME, "namespace": NAMESPACE, "sub": "alice", "address": "192.0.2.1", "request_id": "r1",
    "action": "function.update", "kind": "function", "name": "hello", "changes": [
        {"field": "memory_mb", "from": 128, "to": 256}, {"field": "env_vars.KEY"}, {"field": "x", "from": None, "to": 1},
    ],
}  # fmt: skip


def test_audit_is_a_table_or_json(run, state):
    state.replies["GET", PATH] = 200, {}, json.dumps([ENTRY]).encode()
    header, line = run("audit").out.splitlines()
    assert header.split() == ["TIME", "ACTION", "NAME", "CHANGES", "SUB", "ADDRESS", "REQUEST"]
    assert line.split("  ") == [TIME, "function.update", "hello", "memory_mb 128 to 256, env_vars.KEY, x=1", "alice", "192.0.2.1", "r1"]
    assert run("audit", "hello", "--since", "2026-01-31T09:26:53Z", "--output", "json").json == [ENTRY]
    path = state.calls("GET")[-1][0]
    assert "name=hello" in path and "since=2026-01-31T09%3A26%3A53" in path


def test_the_trail_of_all_names_namespaces(run, state):
    state.replies["GET", "/v1/operator/audit"] = 200, {}, json.dumps([ENTRY]).encode()
    header, line = run("audit", "--all").out.splitlines()
    assert header.split()[:2] == ["NAMESPACE", "TIME"] and line.split()[:2] == [NAMESPACE, TIME]


def test_an_empty_trail_prints_a_note_on_stderr(run, state):
    state.replies["GET", PATH] = 200, {}, b"[]"
    outcome = run("audit")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "No changes\n")
