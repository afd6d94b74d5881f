"""The commands `sless operator …`, and a rule for all commands."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
import pytest

from sless.cli.main import HOMES, group
from tests.unit.cli.contract_server import NAMESPACE, TIME

OTHER = "sless-fedcba9876543210"
TENANTS = "/v1/operator/tenants"
JTI = "a0123456789abcdef012"


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for sub, inner in command.commands.items():
            yield from commands(inner, f"{name} {sub}")
    else:
        yield name, command


def test_no_parameter_hides_another_one():
    for home in HOMES:
        top = group.get_command(click.Context(group), home)
        assert top is not None
        for name, command in commands(top, home):
            counted = Counter(parameter.name for parameter in command.params)
            assert not [one for one, number in counted.items() if number > 1], name


@pytest.fixture
def reply(state):
    def set_reply(method: str, path: str, value: Any) -> None:
        state.replies[method, path] = 200, {}, json.dumps(value).encode()

    return set_reply


def sent(state, method: str) -> list[tuple[str, Any]]:
    return [(path, json.loads(body) if body else None) for path, _, body in state.calls(method)]


def test_a_tenant_is_suspended_and_resumed(run, state, reply):
    reply("POST", f"{TENANTS}/{OTHER}/suspend", {"namespace": OTHER, "suspended": {"reason": "mining", "at": TIME}})
    reply("POST", f"{TENANTS}/{OTHER}/resume", {"namespace": OTHER, "suspended": None})
    outcome = run("operator", "suspend", OTHER, "--reason", "mining")
    assert (outcome.code, outcome.err) == (0, f"{OTHER} is suspended\n")
    assert run("operator", "resume", OTHER).err == f"{OTHER} is no longer suspended\n"
    assert sent(state, "POST") == [(f"{TENANTS}/{OTHER}/suspend", {"reason": "mining"}), (f"{TENANTS}/{OTHER}/resume", None)]


def test_one_function_is_suspended(run, state, reply):
    reply("GET", f"/v1/namespaces/{OTHER}/jobs", [])
    reply("GET", f"/v1/namespaces/{OTHER}/functions/hello", {"name": "hello"})
    reply("POST", f"{TENANTS}/{OTHER}/functions/hello/suspend", {"name": "hello", "suspended": ""})
    reply("POST", f"{TENANTS}/{OTHER}/functions/hello/resume", {"name": "hello", "suspended": "mining"})
    assert run("operator", "suspend", OTHER, "hello").err == "hello is suspended\n"
    assert run("operator", "resume", OTHER, "hello").err == "hello is still suspended with its namespace\n"


def test_lists(run, reply):
    tenant = {
        "namespace": NAMESPACE, "counts": {"functions": 2, "services": 1, "jobs": 0, "triggers": 3},
        "usage": {"invocations": 7, "errors": 1, "gb_seconds": 0.5}, "suspended": {"reason": "mining", "at": TIME},
    }  # fmt: skip
    build = {
        "namespace": NAMESPACE, "kind": "function", "name": "hello", "version": 2, "active_version": 1, "message": "no module\nTraceback",
        "failed_at": TIME,
    }  # fmt: skip
    error = {
        "loop": "cron",
        "namespace": None,
        "kind": None,
        "name": None,
        "message": "no zone",
        "count": 3,
        "first_at": TIME,
        "last_at": TIME,
    }
    usage = {"namespace": NAMESPACE, "day": "2026-01-31", "calls": 7}
    revoked = {"jti": JTI, "sub": "ada", "reason": "leaked", "revoked_at": TIME, "expires_at": TIME}
    shown = {
        "tenants": (tenant, [NAMESPACE, "2", "1", "0", "3", "7", "1", "0.5", "mining"]),
        "failing-builds": (build, [NAMESPACE, "function", "hello", "2", "1", TIME, "no", "module"]),
        "reconcile-errors": (error, ["cron", "-", "-", "3", TIME, "no", "zone"]),
        "queues": ({"queue": "runs", "waiting": 5, "due_at": None}, ["runs", "5", "-"]),
        "usage": (usage, [NAMESPACE, "2026-01-31", "7"]),
        "revoked-tokens": (revoked, [JTI, "ada", TIME, TIME, "leaked"]),
    }
    for name, (item, texts) in shown.items():
        reply("GET", f"/v1/operator/{name}", [item])
        outcome = run("operator", name)
        assert outcome.code == 0 and outcome.out.splitlines()[1].split() == texts, name
        assert run("operator", name, "--output", "json").json == [item]


def test_lists_are_read_to_their_limit(run, state):
    """Reads further pages until the limit is reached."""
    error = {"loop": "cron", "namespace": None, "kind": None, "name": None, "message": "x", "count": 1, "first_at": TIME, "last_at": TIME}
    following = {"Link": '</v1/operator/reconcile-errors?limit=100&cursor=5-cron%2F>; rel="next"'}
    state.replies["GET", "/v1/operator/reconcile-errors"] = 200, following, json.dumps([error] * 100).encode()
    assert len(run("operator", "reconcile-errors", "--limit", "150", "--output", "json").json) == 150
    first, second = (path for path, _, _ in state.calls("GET"))
    assert "limit=150" in first and "cursor=5-cron%2F" in second
    assert len(run("operator", "reconcile-errors", "--output", "json").json) == 100 and len(state.calls("GET")) == 3
    assert run("operator", "failing-builds", "--limit", "0").code == 2


def test_usage_as_csv(run, state):
    state.replies["GET", "/v1/operator/usage"] = 200, {"Content-Type": "text/csv"}, b"namespace,day\r\na,2026-01-31\r\n"
    assert run("operator", "usage", "--from", "2026-01-01", "--csv").out == "namespace,day\r\na,2026-01-31\r\n"
    ((path, headers, _),) = state.calls("GET")
    assert "from=2026-01-01" in path and headers["accept"] == "text/csv"


def test_tokens_and_code(run, state, reply):
    reply("POST", "/v1/operator/revoked-tokens", {"jti": JTI})
    sha256 = "a" * 64
    reply("PUT", f"/v1/operator/allowed-code/{sha256}", {"sha256": sha256, "reason": "demo"})
    state.replies["DELETE", f"/v1/operator/allowed-code/{sha256}"] = 204, {}, b""
    assert run("operator", "revoke-token", "--jti", JTI, "--reason", "leaked").err == f"Token {JTI} is revoked\n"
    assert run("operator", "revoke-token", "--leaked", "x.y.z").code == 0
    assert [body for _, body in sent(state, "POST")] == [{"jti": JTI, "reason": "leaked"}, {"token": "x.y.z", "reason": ""}]
    assert run("operator", "revoke-token").code == 2
    assert run("operator", "allow", sha256, "--reason", "demo").err == f"Code {sha256} is allowed\n"
    assert run("operator", "allow", sha256, "--undo").err == f"Code {sha256} is checked again\n"
