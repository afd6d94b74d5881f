"""Output and exit codes of the other client commands."""

import io
import json
import os
import subprocess
import sys
import zipfile

import pytest

from sless.client.profiles import file_of, read_file
from tests.unit.cli.contract_server import NAMESPACE, TOKEN


@pytest.fixture
def deployed(run, hello):
    assert run("deploy", "hello", str(hello)).code == 0


def test_list_is_a_table_or_json(run, state, deployed):
    state.services["api"] = {"name": "api", "runtime": "nodejs20", "phase": "Failed", "message": "no such module", "url": None}
    state.functions["hello"] |= {"ready_instances": 2, "max_instances": 5}
    lines = run("list").out.splitlines()
    assert lines[0].split() == ["NAME", "KIND", "RUNTIME", "PHASE", "INSTANCES", "VERSION", "UPDATED", "URL"]
    assert lines[1].split() == ["api", "service", "nodejs20", "Failed", "-", "-", "-", "no", "such", "module"]
    assert lines[2].split()[:6] == ["hello", "function", "python3.11", "Ready", "2/5", "1"]
    assert [(item["name"], item["kind"]) for item in run("list", "--output", "json").json] == [("hello", "function"), ("api", "service")]


def test_an_empty_list_prints_a_note_on_stderr(run):
    outcome = run("list")
    assert (outcome.code, outcome.out) == (0, "")
    assert "No functions or services" in outcome.err
    assert run("list", "--output", "json").json == []


def test_describe_shows_the_function_and_its_triggers(run, state, deployed):
    state.functions["hello"] |= {"env_vars": {"A": "1", "B": "2"}, "ready_instances": 0, "max_instances": 5}
    out = run("describe", "hello").out
    assert "instances       0/5\n" in out
    assert "phase           Ready\n" in out
    assert "env_vars        A=1\n                B=2\n" in out
    assert "hello    http" in out
    found = run("describe", "hello", "--output", "json").json
    assert (found["kind"], found["triggers"][0]["name"]) == ("function", "hello")


def test_versions_and_rollback(run, state, deployed, hello):
    (hello / "handler.py").write_text("def handle(event):\n    return 2\n")
    run("deploy", "hello", str(hello))
    lines = run("versions", "hello").out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["2", "*", "ready"], ["1", "ready", "python3.11"]]
    outcome = run("rollback", "hello", "1")
    assert (outcome.code, outcome.err) == (0, 'Version 1 of function "hello" is active\n')
    assert state.functions["hello"]["active_version"] == 1
    assert run("rollback", "hello", "0").code == 2


def test_rebuild_waits_until_the_new_version_is_active(run, state, deployed):
    outcome = run("rebuild", "hello")
    assert (outcome.code, outcome.err) == (0, 'Version 2 of function "hello" is active\n')
    assert run("rebuild", "--runtime", "python3.11").err == 'Version 3 of function "hello" is active\n'
    assert run("rebuild", "--runtime", "nodejs20").err == "Nothing to rebuild\n"
    assert run("rebuild", "--all", "--no-wait").err == 'Version 4 of function "hello" is being built\n'
    assert [version["version"] for version in run("rebuild", "--all", "--output", "json").json] == [5]
    assert run("rebuild", "--runtime", "python3.11", "-A").err == 'Version 6 of function "hello" is active\n'
    assert run("rebuild").code == run("rebuild", "hello", "--all").code == run("rebuild", "hello", "-A").code == 2


def test_a_failed_rebuild_shows_its_reason(run, state, deployed):
    state.rebuilds_fail = True
    outcome = run("rebuild", "hello")
    assert (outcome.code, outcome.err) == (
        1,
        "function version 2 of hello: no such base image; the previous version stays active\n",
    )


def test_source_prints_or_writes(run, deployed, tmp_path):
    assert run("source", "hello").out == "==> handler.py <==\ndef handle(event):\n    return 'hi'\n\n"
    target = tmp_path / "out"
    assert run("source", "hello", "-o", str(target)).code == 0
    assert (target / "handler.py").read_text() == "def handle(event):\n    return 'hi'\n"
    again = run("source", "hello", "-o", str(target))
    assert (again.code, "already exists; --force" in again.err) == (1, True)
    assert run("source", "hello", "-o", str(target), "--force").code == 0


def test_source_is_never_written_outside_its_folder(run, state, deployed, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../evil.py", "x")
    state.zips["hello"] = buffer.getvalue()
    outcome = run("source", "hello", "-o", str(tmp_path / "out"))
    assert outcome.code == 1
    assert "'../evil.py' is outside" in outcome.err
    assert not (tmp_path / "evil.py").exists()


class TestInvoke:
    def test_prints_the_answer(self, run, state, deployed, tmp_path):
        outcome = run("invoke", "hello", "-d", '{"a": [1, "ü"]}')
        assert (outcome.code, json.loads(outcome.out)) == (0, {"echo": {"a": [1, "ü"]}})
        (tmp_path / "event.json").write_text('{"b": 2}')
        assert json.loads(run("invoke", "hello", "-d", f"@{tmp_path}/event.json").out) == {"echo": {"b": 2}}
        assert run("invoke", "hello", "--output", "json").json | {"headers": 0} == {"status": 200, "headers": 0, "body": {"echo": None}}

    def test_reads_stdin(self, run, deployed, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"c": 3}')))
        assert json.loads(run("invoke", "hello", "-d", "-").out) == {"echo": {"c": 3}}

    @pytest.mark.parametrize("data, text", [("{a}", "--data: expected JSON"), ("@/nowhere", "cannot read '/nowhere'")])
    def test_invalid_data_is_a_usage_error(self, run, state, deployed, data, text):
        outcome = run("invoke", "hello", "-d", data)
        assert (outcome.code, text in outcome.err) == (2, True)
        assert state.calls("POST", "/invoke") == []

    def test_an_error_of_the_function_is_printed_and_fails(self, run, state, deployed):
        path = f"/v1/namespaces/{NAMESPACE}/functions/hello/invoke"
        state.replies[("POST", path)] = (500, {"Content-Type": "application/json", "X-Sless-Function-Error": "1"}, b'{"error": "boom"}')
        outcome = run("invoke", "hello")
        assert (outcome.code, outcome.out, outcome.err) == (1, '{"error": "boom"}\n', "Error: function hello answered 500\n")
        state.replies[("POST", path)] = (504, {"X-Sless-Error": "timeout"}, b"")
        assert run("invoke", "hello").err == "Error: sless answered 504 (timeout)\n"

    def test_binary_answers_are_printed_unchanged(self, repository, server, state):
        state.functions["hello"] = {"name": "hello"}
        path = f"/v1/namespaces/{NAMESPACE}/functions/hello/invoke"
        state.replies[("POST", path)] = (200, {"Content-Type": "application/octet-stream"}, b"\x00\xff")
        environ = os.environ | {"SLESS_URL": server.url, "SLESS_TOKEN": TOKEN}
        ended = subprocess.run([sys.executable, repository / "sless.py", "invoke", "hello"], env=environ, capture_output=True)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"\x00\xff", b"")

    def test_async_prints_the_id(self, run, state, deployed):
        location = f"/v1/namespaces/{NAMESPACE}/functions/hello/invocations/abc123"
        state.replies[("POST", f"/v1/namespaces/{NAMESPACE}/functions/hello/invoke")] = (202, {"Location": location}, b"{}")
        assert run("invoke", "hello", "--async").out == "abc123\n"
        assert state.calls("POST", "/invoke")[-1][1]["prefer"] == "respond-async"
        run("invoke", "hello", "--async", "--callback-url", "https://example.com/x", "--max-attempts", "5")
        sent = state.calls("POST", "/invoke")[-1][1]
        assert (sent["x-sless-callback-url"], sent["x-sless-max-attempts"]) == ("https://example.com/x", "5")

    def test_async_prints_no_id_if_the_call_is_refused(self, run, state, deployed):
        refused = json.dumps({"error": "X-Sless-Callback-Url: expected a public address", "code": "invalid", "details": []}).encode()
        reply = (400, {"Content-Type": "application/json", "X-Sless-Error": "invalid"}, refused)
        state.replies[("POST", f"/v1/namespaces/{NAMESPACE}/functions/hello/invoke")] = reply
        outcome = run("invoke", "hello", "--async", "--callback-url", "http://10.0.0.1/x")
        assert (outcome.code, outcome.out, outcome.err) == (1, "", "Error: X-Sless-Callback-Url: expected a public address\n")

    @pytest.mark.parametrize("option", [("--callback-url", "https://x"), ("--max-attempts", "2"), ("--wait",)])
    def test_options_that_need_async(self, run, state, deployed, option):
        outcome = run("invoke", "hello", *option)
        assert (outcome.code, f"{option[0]}: only with --async" in outcome.err) == (2, True)
        assert state.calls("POST", "/invoke") == []

    @pytest.mark.parametrize(
        ("end", "code", "out", "err"),
        [
            ({"status": "succeeded", "result": '{"n": 1}'}, 0, '{"n": 1}\n', ""),
            ({"status": "dead", "attempts": 3, "error": "boom"}, 1, "", "Error: invocation abc123 is dead after 3 attempts: boom\n"),
            ({"status": "cancelled", "attempts": 1}, 1, "", "Error: invocation abc123 is cancelled\n"),
        ],
    )
    def test_async_and_wait(self, run, state, deployed, end, code, out, err):
        location = f"/v1/namespaces/{NAMESPACE}/functions/hello/invocations/abc123"
        state.replies[("POST", f"/v1/namespaces/{NAMESPACE}/functions/hello/invoke")] = (202, {"Location": location}, b"{}")
        state.replies[("GET", location)] = (200, {}, json.dumps({"id": "abc123"} | end).encode())
        outcome = run("invoke", "hello", "--async", "--wait")
        assert (outcome.code, outcome.out, outcome.err) == (code, out, err)


class TestLogs:
    def test_lines_are_printed_unchanged(self, run, state, deployed):
        assert run("logs", "hello", "--tail", "5").out == "first\nsecond\n"
        assert state.requests[-1][1].endswith("/logs?tail=5")
        assert [json.loads(line) for line in run("logs", "hello", "--output", "json").out.splitlines()] == [
            {"text": "first"},
            {"text": "second"},
        ]

    def test_since_becomes_a_time(self, run, state, deployed):
        run("logs", "hello", "--since", "2026-01-31T10:26:53+01:00")
        assert state.requests[-1][1].endswith("/logs?since=2026-01-31T09%3A26%3A53.000Z")
        assert run("logs", "hello", "--since", "10m").code == 0
        for wrong in ("yesterday", "999999d", "0001-01-01T00:00:00+14:00"):
            outcome = run("logs", "hello", "--since", wrong)
            assert outcome.code == 2 and "--since: expected 30s" in outcome.err, wrong


def test_invocations_lists_or_shows_one(run, state, deployed):
    calls = [{"id": f"i{number}", "status": "failed", "http_status": 500, "trigger": "http"} for number in range(3)]
    path = f"/v1/namespaces/{NAMESPACE}/functions/hello/invocations"
    state.replies[("GET", path)] = (200, {}, json.dumps(calls).encode())
    lines = run("invocations", "hello", "--status", "failed", "--limit", "2").out.splitlines()
    assert [line.split()[-1] for line in lines] == ["ID", "i0", "i1"]
    assert state.requests[-1][1] == f"{path}?limit=2&status=failed"
    one = calls[0] | {"result": "[1]", "logs": [{"time": "T", "stream": "stdout", "text": "hello"}]}
    state.replies[("GET", f"{path}/i0")] = (200, {}, json.dumps(one).encode())
    assert run("invocations", "hello", "i0").out.splitlines()[-2:] == ["result       [1]", "T stdout: hello"]


class TestInvocations:
    path = f"/v1/namespaces/{NAMESPACE}/functions/hello/invocations"

    def test_show_prints_attempts_and_callback(self, run, state, deployed):
        attempts = [{"number": 1, "status": "failed", "http_status": 500, "error": "boom\ntrace"}, {"number": 2, "status": "running"}]
        callback = {"url": "https://example.com/x", "status": "waiting"}
        found = {"id": "i0", "status": "running", "attempts_detail": attempts, "callback": callback, "logs": []}
        state.replies[("GET", f"{self.path}/i0")] = (200, {}, json.dumps(found).encode())
        out = run("invocations", "show", "hello", "i0").out
        assert "callback url" in out and "https://example.com/x" in out and "boom" in out and "trace" not in out
        assert out.splitlines()[-2].split()[:3] == ["1", "failed", "500"]
        assert run("invocations", "hello", "i0").out == out

    def test_cancel_and_retry(self, run, state, deployed):
        state.replies[("DELETE", f"{self.path}/i0")] = (202, {}, b'{"id": "i0", "status": "cancelled"}')
        assert run("invocations", "cancel", "hello", "i0").err == "Invocation i0 is cancelled\n"
        state.replies[("POST", f"{self.path}/i0/retry")] = (202, {}, b'{"id": "i0", "status": "queued"}')
        assert run("invocations", "retry", "hello", "i0").err == "Invocation i0 is queued\n"
        state.replies[("GET", f"{self.path}/i0")] = (200, {}, b'{"id": "i0", "status": "succeeded", "result": "7"}')
        assert run("invocations", "retry", "hello", "i0", "--wait").out == "7\n"
        error = b'{"error": "it is running", "code": "conflict", "details": [], "request_id": "r"}'
        state.replies[("POST", f"{self.path}/i0/retry")] = (409, {}, error)
        outcome = run("invocations", "retry", "hello", "i0")
        assert (outcome.code, "it is running" in outcome.err) == (1, True)

    def test_a_function_named_like_a_command(self, run, state, deployed):
        state.functions["show"] = {"name": "show"}
        state.replies[("GET", f"/v1/namespaces/{NAMESPACE}/functions/show/invocations")] = (200, {}, b"[]")
        assert run("invocations", "list", "show").err == "No invocations\n"

    def test_options_before_the_name(self, run, state, deployed):
        state.replies[("GET", self.path)] = (200, {}, b"[]")
        assert run("invocations", "--limit", "3", "hello").err == "No invocations\n"
        assert "retry" in run("invocations", "--help").out

    def test_callback_key(self, run, state):
        path = f"/v1/namespaces/{NAMESPACE}/callback-key"
        state.replies[("GET", path)] = (200, {}, b'{"key": "old"}')
        state.replies[("POST", path + "/rotate")] = (200, {}, b'{"key": "new"}')
        assert (run("callback-key").out, run("callback-key", "--rotate").out) == ("old\n", "new\n")


def test_triggers_and_jobs(run, state, deployed):
    assert run("triggers").out.splitlines()[1].split()[:5] == ["hello", "http", "hello", "yes", "yes"]
    state.jobs["table"] = {"name": "table", "phase": "Succeeded", "run_id": 1, "exit_code": 0}
    assert run("jobs").out.splitlines()[1].split()[:3] == ["table", "Succeeded", "1"]


def test_login_checks_and_stores_the_token(run, server, monkeypatch, tmp_path):
    monkeypatch.delenv("SLESS_TOKEN")
    wrong = run("login", "--token", "nonsense")
    assert (wrong.code, wrong.err) == (1, "Error: the signature of the token is invalid\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert read_file(file_of(environ)).profiles == {}
    monkeypatch.setattr("sys.stdin", io.StringIO(TOKEN + "\n"))
    assert run("login", "--token", "-").code == 0
    monkeypatch.delenv("SLESS_URL")
    assert run("list").code == 0, "the profile is enough"


def test_the_error_without_a_token_says_what_to_do(run, monkeypatch):
    monkeypatch.delenv("SLESS_TOKEN")
    outcome = run("list")
    assert outcome.code == 1
    assert "sless login" in outcome.err
    assert "SLESS_TOKEN" in outcome.err


def test_all_errors_of_a_request_are_shown(run, state, hello):
    body = {"error": "memory_mb: too small (and 1 more)", "code": "invalid", "request_id": "r",
            "details": [{"field": "memory_mb", "message": "too small"}, {"field": "name", "message": "too long"}]}  # fmt: skip
    state.replies[("POST", f"/v1/namespaces/{NAMESPACE}/functions")] = (400, {}, json.dumps(body).encode())
    outcome = run("deploy", "hello", str(hello))
    assert outcome.code == 1
    assert outcome.err == "Error: memory_mb: too small (and 1 more)\n  memory_mb: too small\n  name: too long\n"


def test_a_server_error_shows_the_request_id(run, state):
    state.replies[("GET", f"/v1/namespaces/{NAMESPACE}/functions")] = (500, {}, b'{"error": "internal error", "request_id": "r9"}')
    assert run("list").err == "Error: internal error\n  request id: r9\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("deploy", "hello", "HELLO"), "`sless describe hello`"),
        (("invoke", "hello", "--async", "--wait"), "`sless invocations show hello i7`"),
        (("trigger", "fire", "nightly"), "`sless invocations show hello i7`"),
        (("jobs", "run", "table", "--wait"), "`sless jobs show table`"),
    ],
)
def test_interrupted_waits_print_how_to_check_later(run, state, hello, monkeypatch, arguments, hint):
    run("deploy", "hello", str(hello))
    (hello / "handler.py").write_text("def handle(event):\n    return 'ho'\n")
    state.build_state = "queued"
    base, call = f"/v1/namespaces/{NAMESPACE}", b'{"id": "i7", "status": "running"}'
    job = b'{"name": "table", "run_id": 1, "phase": "Running"}'
    state.replies |= {
        ("POST", f"{base}/functions/hello/invoke"): (202, {"Location": f"{base}/functions/hello/invocations/i7"}, call),
        ("GET", f"{base}/functions/hello/invocations/i7"): (200, {}, call),
        ("POST", f"{base}/triggers/nightly/fire"): (202, {}, call),
        ("GET", f"{base}/triggers/nightly"): (200, {}, b'{"name": "nightly", "function_ref": "hello"}'),
        ("GET", f"{base}/jobs/table"): (200, {}, job),
        ("PATCH", f"{base}/jobs/table"): (200, {}, job),
    }

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    outcome = run(*(str(hello) if argument == "HELLO" else argument for argument in arguments))
    assert outcome.code == 130
    assert "No longer waiting: " in outcome.err
    assert hint in outcome.err


def test_the_error_without_a_server_says_what_to_do(run, monkeypatch):
    monkeypatch.setenv("SLESS_URL", "http://127.0.0.1:1")
    assert run("list").err == (
        "Error: no answer from http://127.0.0.1:1: connection refused\n"
        "  `sless serve` starts a server; --url or SLESS_URL selects another\n"
    )
