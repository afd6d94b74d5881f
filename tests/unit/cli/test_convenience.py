"""Several names, names of any kind, settings without code, whoami, completion."""

import json
import os
import subprocess
import sys

import pytest

from sless._version import __version__
from tests.unit.cli.contract_server import NAMESPACE


@pytest.fixture
def deployed(run, hello):
    assert run("deploy", "hello", str(hello)).code == 0


@pytest.fixture
def table(state):
    state.jobs["table"] = {"name": "table", "phase": "Succeeded", "run_id": 1}
    state.replies[("GET", f"/v1/namespaces/{NAMESPACE}/jobs/table/logs")] = (200, {"Content-Type": "text/plain"}, b"a line\n")


def test_all_names_are_tried_and_errors_come_last(run, state, deployed, table):
    outcome = run("delete", "nope", "hello", "--output", "json")
    assert (outcome.code, outcome.json) == (1, [{"name": "hello", "kind": "function"}])
    assert outcome.err.splitlines()[-1] == f'Error: no function or service "nope" in {NAMESPACE}'
    assert state.functions == {}
    outcome = run("jobs", "delete", "nope", "table")
    assert (outcome.code, state.jobs, outcome.err.splitlines()[-1]) == (1, {}, 'Error: job "nope" not found')


def test_disable_and_delete_try_all_triggers(run, state, deployed):
    outcome = run("trigger", "disable", "nope", "hello")
    assert (outcome.code, state.triggers["hello"]["enabled"]) == (1, False)
    assert outcome.err == 'trigger "hello" disabled\nError: trigger "nope" not found\n'
    outcome = run("trigger", "delete", "nope", "hello")
    assert (outcome.code, state.triggers) == (1, {})


def test_delete_and_logs_find_jobs_and_triggers(run, state, deployed, table):
    state.triggers["nightly"] = {"name": "nightly", "type": "cron", "function_ref": "hello"}
    assert run("logs", "table").out == "a line\n"
    assert run("logs", "nope").err == f'Error: no function or service or job "nope" in {NAMESPACE}\n'
    assert run("delete", "table", "nightly").code == 0
    assert (state.jobs, "nightly" in state.triggers, "hello" in state.functions) == ({}, False, True)
    assert run("delete", "hello").code == 0
    assert (state.functions, state.triggers) == ({}, {}), "the function first, with its trigger"


def test_show_prints_the_build_log_and_logs_points_to_it(run, state, hello):
    state.build_state, state.build_log = "failed", "Collecting\nERROR: no such package\n"
    state.build_message = "no such package\nERROR: no such package"
    run("deploy", "hello", str(hello))
    out = run("versions", "hello", "1").out
    assert "message     no such package\n" in out and out.endswith("\n\nCollecting\nERROR: no such package\n")
    assert out.count("ERROR") == 1, "the log has the reason"
    assert run("versions", "hello", "1", "--output", "json").json["build_log"] == state.build_log
    assert run("logs", "hello").err == "The build of version 1 failed; `sless versions hello 1` shows its log\n"


def test_settings_can_change_without_code(run, state, deployed):
    state.functions["hello"]["env_vars"] = {"A": "1", "B": "2"}
    outcome = run("set", "hello", "--env", "C=3", "--unset", "A", "--memory", "256", "--concurrency", "4", "--secret-env", "P=x")
    assert (outcome.code, outcome.err) == (0, 'Changed function "hello": concurrency, env_vars, memory_mb, secret_env\n')
    sent = json.loads(state.calls("PATCH")[-1][2])
    assert sent == {"memory_mb": 256, "concurrency": 4, "secret_env": {"P": "x"}, "env_vars": {"B": "2", "C": "3"}}
    assert len(state.versions["hello"]) == 1
    assert "give at least one option" in run("set", "hello").err


def test_deploy_has_the_same_options(run, state, hello):
    assert run("deploy", "hello", str(hello), "--description", "says hi", "--concurrency", "1", "--secret-env", "P=x").code == 0
    found = state.functions["hello"]
    assert (found["description"], found["concurrency"], found["secret_env"]) == ("says hi", 1, {"P": "x"})


def test_whoami(run, server):
    assert f"namespace  {NAMESPACE}\n" in run("whoami").out
    assert run("whoami", "--output", "json").json["url"] == server.url


@pytest.mark.parametrize("command", [("list",), ("login",)])
def test_an_empty_token_is_an_error(run, command):
    outcome = run(*command, "--token", "")
    assert (outcome.code, "--token" in outcome.err, "found an empty text" in outcome.err) == (2, True, True)


def test_the_error_for_an_expired_token_says_how_to_get_another(run, state):
    body = b'{"error": "the token expired at 2026-01-31T09:26:53Z", "code": "token_expired", "request_id": "r"}'
    state.replies[("GET", f"/v1/namespaces/{NAMESPACE}/functions")] = (401, {}, body)
    assert "`sless token --sub NAME`" in run("list").err.splitlines()[1]


def test_version_is_an_option_too(run):
    assert run("--version").out == f"{__version__}\n"


@pytest.mark.parametrize("words", [("invok",), ("trigger", "lst"), ("jobs", "creat")])
def test_an_unknown_command_gets_a_suggestion(run, words):
    outcome = run(*words)
    assert (outcome.code, "Did you mean" in outcome.err) == (2, True)


def test_completion(run, repository):
    assert "_SLESS_COMPLETE=bash_complete" in run("completion", "bash").out
    environ = os.environ | {"_SLESS_COMPLETE": "bash_complete", "COMP_WORDS": "sless invo", "COMP_CWORD": "1"}
    shown = subprocess.run([sys.executable, repository / "sless.py"], env=environ, capture_output=True, text=True).stdout
    assert shown.split() == ["plain,invoke", "plain,invocations"]
