"""`sless deploy` and `sless delete` against a server that answers per contract."""

import json

import pytest

from sless.client import DeployRequest, deploy
from tests.unit.cli.contract_server import NAMESPACE

URL = f"http://example.test/fn/{NAMESPACE}/hello"


class Silent:
    def __init__(self):
        self.steps, self.lines = [], []

    def step(self, text):
        self.steps.append(text)

    def log(self, line):
        self.lines.append(line)


def test_a_new_function_gets_a_url(run, state, hello):
    outcome = run("deploy", "hello", str(hello), "--env", "A=1", "--env", "B=x=y", "--memory", "256", "--timeout", "7")
    assert (outcome.code, outcome.out) == (0, URL + "\n")
    function = state.functions["hello"]
    assert (function["runtime"], function["memory_mb"], function["timeout_sec"]) == ("python3.11", 256, 7)
    assert function["env_vars"] == {"A": "1", "B": "x=y"}
    assert (state.triggers["hello"]["type"], state.triggers["hello"]["function_ref"]) == ("http", "hello")
    assert "pip: nothing to install" in outcome.err
    assert "\x1b" not in outcome.err + outcome.out


def test_warnings_of_the_code_checks_are_printed(run, state, hello):
    state.warnings = ("rules: handler.py:4: shell=True", "not checked (llm): too slow")
    outcome = run("deploy", "hello", str(hello))
    assert outcome.code == 0
    assert [line for line in outcome.err.splitlines() if "Warning" in line] == [f"Warning: {text}" for text in state.warnings]
    assert "Warning: rules: handler.py:4" in run("jobs", "create", "work", str(hello), "--no-run").err


def test_an_update_keeps_other_settings(run, state, hello):
    run("deploy", "hello", str(hello), "--env", "A=1", "--memory", "256")
    (hello / "handler.py").write_text("def handle(event):\n    return 'ho'\n")
    outcome = run("deploy", "hello", str(hello), "--env", "B=2")
    assert outcome.code == 0
    assert state.functions["hello"]["env_vars"] == {"A": "1", "B": "2"}
    assert state.functions["hello"]["memory_mb"] == 256
    assert [json.loads(body) for _, _, body in state.calls("PATCH")] == [{"env_vars": {"A": "1", "B": "2"}}]
    assert len(state.calls("POST", "/triggers")) == 1
    assert run("deploy", "hello", str(hello), "--unset", "A").code == 0
    assert state.functions["hello"]["env_vars"] == {"B": "2"}


def test_an_unchanged_deploy_changes_nothing(run, state, hello):
    run("deploy", "hello", str(hello))
    outcome = run("deploy", "hello", str(hello), "--runtime", "python3.11")
    assert outcome.code == 0
    assert state.calls("PATCH") == []
    assert len(state.versions["hello"]) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--entrypoint", "nope.fn"], "entrypoint nope.fn (python3.11): expected nope.py or nope/__init__.py, found handler.py"),
        (["--runtime", "nodejs20"], "entrypoint handler.handle (nodejs20): expected handler.js or handler.mjs, found handler.py"),
        (["--runtime", "go1.23"], "entrypoint handler.handle (go1.23): expected a .go file in the top folder, found handler.py"),
    ],
)
def test_a_missing_entrypoint_changes_nothing(run, state, hello, options, expected):
    run("deploy", "hello", str(hello))
    outcome = run("deploy", "hello", str(hello), *options)
    assert (outcome.code, outcome.err) == (1, f"Error: {expected}; nothing changed\n")
    assert state.calls("PATCH") == []
    assert run("deploy", "new", str(hello), "--runtime", "python3.11", "--entrypoint", "nope.fn").code == 1
    assert "new" not in state.functions


def test_an_entrypoint_in_the_only_folder_is_found(run, state, hello):
    run("deploy", "hello", str(hello))
    (hello / "inner").mkdir()
    (hello / "handler.py").rename(hello / "inner" / "app.py")
    assert run("deploy", "hello", str(hello), "--entrypoint", "app.run").code == 0
    assert state.functions["hello"]["entrypoint"] == "app.run"


@pytest.mark.parametrize("other", ["package.json", "main.go"])
def test_a_given_runtime_is_kept(run, state, hello, other):
    (hello / other).write_text("{}")
    assert run("deploy", "hello", str(hello)).code == 1
    assert run("deploy", "hello", str(hello), "--runtime", "python3.11").code == 0
    assert run("jobs", "create", "table", str(hello), "--runtime", "python3.11", "--no-run").code == 0


def test_code_below_src_needs_only_a_runtime(run, state, hello):
    (hello / "src").mkdir()
    (hello / "handler.py").rename(hello / "src" / "handler.py")
    (hello / "README.txt").write_text("")
    assert run("deploy", "hello", str(hello), "--runtime", "python3.11", "--entrypoint", "src/handler.handle").code == 0


def test_env_files_are_left_out_and_unchanged_code_is_reported(run, state, hello):
    (hello / ".env").write_text("PASSWORD=x")
    assert "Left out .env; " in run("deploy", "hello", str(hello)).err
    assert b"PASSWORD" not in state.zips["hello"]
    again = run("deploy", "hello", str(hello)).err
    assert "Code is unchanged: version 1\n" in again and "Uploaded" not in again


def test_a_service_needs_no_trigger(run, state, hello):
    state.build_log = ""
    outcome = run("deploy", "hello", str(hello), "--service", "--replicas", "2", "--output", "json")
    assert outcome.code == 0
    assert outcome.json["replicas"] == 2
    assert outcome.json["deployed_version"] == 1
    assert state.triggers == {}
    again = run("deploy", "hello", str(hello))
    assert again.code == 0, "an existing service stays a service without --service"
    assert state.functions == {}


def test_a_failed_build_shows_its_reason_and_leaves_no_trigger(run, state, hello):
    state.build_state, state.build_message = "failed", "pip could not install numpy\nERROR: no such version\na hint"
    state.build_log = "Collecting numpy\nERROR: no such version\n"
    outcome = run("deploy", "hello", str(hello))
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.endswith("Error: version 1 of hello failed: pip could not install numpy\na hint\n")
    assert outcome.err.count("ERROR: no such version") == 1
    assert state.triggers == {}


def test_a_function_whose_first_upload_is_refused_is_deleted(run, state, hello):
    upload = ("POST", f"/v1/namespaces/{NAMESPACE}/functions/hello/upload")
    refusal = json.dumps({"error": "the upload is too large", "code": "too_large", "details": [], "request_id": "r"}).encode()
    state.replies[upload] = (413, {"Content-Type": "application/json"}, refusal)
    outcome = run("deploy", "hello", str(hello))
    assert (outcome.code, state.functions) == (1, {})
    assert 'Deleted function "hello": the server refused its code' in outcome.err and "the upload is too large" in outcome.err
    del state.replies[upload]
    run("deploy", "hello", str(hello))
    state.replies[upload] = (413, {"Content-Type": "application/json"}, refusal)
    assert run("deploy", "hello", str(hello)).code == 1
    assert "hello" in state.functions


@pytest.mark.parametrize(("command", "kind"), [(["deploy", "hello"], "functions"), (["jobs", "create", "hello"], "jobs")])
def test_uploads_that_may_have_been_accepted_are_not_undone(run, state, hello, command, kind):
    """After a 503 it is unknown whether the server accepted the code."""
    failure = json.dumps({"error": "the database is away", "code": "unavailable", "details": [], "request_id": "r"}).encode()
    state.replies["POST", f"/v1/namespaces/{NAMESPACE}/{kind}/hello/upload"] = (503, {"Content-Type": "application/json"}, failure)
    outcome = run(*command, str(hello))
    assert outcome.code == 1 and "the database is away" in outcome.err
    assert "hello" in getattr(state, kind)
    assert state.calls("DELETE") == []


def test_no_wait_returns_after_the_upload(run, state, hello):
    state.build_state = "queued"
    outcome = run("deploy", "hello", str(hello), "--no-wait")
    assert (outcome.code, outcome.out) == (0, URL + "\n")


def test_waiting_times_out(run, state, hello):
    state.build_state = "building"
    outcome = run("deploy", "hello", str(hello), "--wait-sec", "0.3")
    assert outcome.code == 1
    assert "gave up waiting: version 1 of hello is still being built" in outcome.err


def test_no_http_means_no_url(run, state, hello):
    outcome = run("deploy", "hello", str(hello), "--no-http")
    assert (outcome.code, outcome.out) == (0, "")
    assert "sless invoke hello" in outcome.err
    assert state.triggers == {}


def test_deploying_the_same_code_after_a_rollback_activates_it(run, state, hello):
    run("deploy", "hello", str(hello))
    (hello / "handler.py").write_text("def handle(event):\n    return 2\n")
    run("deploy", "hello", str(hello))
    run("rollback", "hello", "1")
    assert state.functions["hello"]["active_version"] == 1
    assert run("deploy", "hello", str(hello)).code == 0
    assert state.functions["hello"]["active_version"] == 2
    assert len(state.versions["hello"]) == 2


def test_a_disabled_trigger_stays_disabled_with_a_notice(client, state, hello):
    deploy(client, DeployRequest(name="hello", folder=hello), Silent())
    state.triggers["hello"]["enabled"] = False
    report = Silent()
    deploy(client, DeployRequest(name="hello", folder=hello), report)
    assert any("disabled" in step for step in report.steps)
    assert state.triggers["hello"]["enabled"] is False


def test_a_trigger_of_another_function_is_not_taken_over(client, state, hello):
    state.triggers["hello"] = {"name": "hello", "type": "cron", "function_ref": "other"}
    deploy(client, DeployRequest(name="hello", folder=hello), Silent())
    assert state.triggers["hello-http"]["function_ref"] == "hello"


def test_the_upload_is_the_folder(client, state, hello):
    report = Silent()
    deploy(client, DeployRequest(name="hello", folder=hello), report)
    _, headers, body = state.calls("POST", "/upload")[0]
    assert headers["content-type"].startswith("multipart/form-data")
    assert b'name="code_hash"' in body
    assert client.functions.source("hello") == {"handler.py": "def handle(event):\n    return 'hi'\n"}
    assert report.lines == ["pip: nothing to install"]


def test_usage_errors(run, hello, tmp_path):
    for arguments in (
        ("deploy", "hello"),
        ("deploy", "hello", str(hello), "--env", "NOVALUE"),
        ("deploy", "hello", str(hello), "--memory", "much"),
        ("deploy", "hello", str(hello), "--replicas", "2"),
        ("delete",),
        ("delete", "a", "--job", "--trigger"),
    ):
        outcome = run(*arguments)
        assert outcome.code == 2, arguments
        assert "Usage: sless" in outcome.err
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run("deploy", "hello", str(empty)).code == 1


def test_delete_removes_the_functions_trigger(run, state, hello):
    run("deploy", "hello", str(hello))
    state.triggers["nightly"] = {"name": "nightly", "type": "cron", "function_ref": "hello"}
    outcome = run("delete", "hello")
    assert outcome.code == 0
    assert state.functions == {}
    assert list(state.triggers) == ["nightly"]
    assert run("delete", "nightly", "--trigger").code == 0
    missing = run("delete", "hello")
    assert (missing.code, missing.err) == (1, f'Error: no function or service "hello" in {NAMESPACE}\n')
