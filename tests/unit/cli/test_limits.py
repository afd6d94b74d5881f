"""`usage` and `limits`."""

import json

from tests.unit.cli.contract_server import NAMESPACE

LIMITS = f"/v1/operator/tenants/{NAMESPACE}/limits"
SHOWN = {"namespace": NAMESPACE, "functions": 3, "jobs": None, "limits": {"functions": 3, "jobs": 200}}


def reply(value):
    return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()


def test_usage_shows_what_is_used_of_each_limit(run, state):
    days = [{"day": "2026-01-31", "invocations": 7, "errors": 1, "gb_seconds": 0.25, "instance_gb_seconds": 4.5}]
    found = {"namespace": NAMESPACE, "counts": {"functions": 2}, "limits": {"functions": 3, "jobs": 200}, "days": days}
    state.replies["GET", f"/v1/namespaces/{NAMESPACE}/usage"] = reply(found)
    lines = [line.split() for line in run("usage").out.splitlines()]
    assert lines[1:3] == [["functions", "2", "3"], ["jobs", "-", "200"]] and lines[-1] == ["2026-01-31", "7", "1", "0.25", "4.5"]
    assert run("usage", "--output", "json").json == found


def test_a_changed_limit_keeps_the_others(run, state):
    state.replies["POST", f"/v1/namespaces/{NAMESPACE}/ensure"] = reply({})
    state.replies["GET", LIMITS] = state.replies["PUT", LIMITS] = reply(SHOWN)
    assert [line.split() for line in run("limits").out.splitlines()][1:] == [["functions", "3", "set"], ["jobs", "200", "default"]]
    assert state.calls("PUT") == []
    run("limits", "jobs=5")
    run("limits", "functions=default")
    assert [json.loads(body) for _, _, body in state.calls("PUT")] == [{"functions": 3, "jobs": 5}, {"functions": None, "jobs": None}]


def test_a_bad_value_is_a_usage_error(run):
    for text in ("jobs", "jobs=-1", "jobs=many"):
        assert run("limits", text).code == 2
