"""The command line against a real server: deploy, call, inspect, delete."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ok, wait_until

pytestmark = [pytest.mark.xdist_group("cli"), pytest.mark.timeout(120)]

HANDLER = """\
import os

def handle(event, context):
    print("called with", event)
    return {"event": event, "greeting": os.environ.get("GREETING"), "version": context.version, "trigger": context.trigger}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "handler.py").write_text(HANDLER)
    return tmp_path / "code"


def call(url: str, event: object, **headers: str) -> dict:
    request = urllib.request.Request(url, json.dumps(event).encode(), {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.load(answer)


def test_deploy_call_and_delete_a_function(server, folder, tmp_path):
    url = ok(server.sless("deploy", "hello", str(folder), "--env", "GREETING=Hi", "--memory", "192")).strip()
    assert call(url, {"n": 1}) == {"event": {"n": 1}, "greeting": "Hi", "version": 1, "trigger": "http"}

    answer = json.loads(ok(server.sless("invoke", "hello", "-d", '{"n": 2}')))
    assert (answer["event"], answer["trigger"]) == ({"n": 2}, "invoke")

    (folder / "handler.py").write_text(HANDLER.replace("greeting", "salute"))
    assert ok(server.sless("deploy", "hello", str(folder))).strip() == url
    second = call(url, {})
    assert (second["salute"], second["version"]) == ("Hi", 2), "an update keeps the environment"

    described = json.loads(ok(server.sless("describe", "hello", "--output", "json")))
    assert (described["memory_mb"], described["phase"], described["active_version"]) == (192, "Ready", 2)
    assert [version["state"] for version in json.loads(ok(server.sless("versions", "hello", "--output", "json")))] == ["ready", "ready"]

    ok(server.sless("rollback", "hello", "1"))
    assert call(url, {})["version"] == 1
    ok(server.sless("source", "hello", "-o", str(tmp_path / "back"), "--version", "2"))
    assert (tmp_path / "back" / "handler.py").read_text() == HANDLER.replace("greeting", "salute")

    assert "hello" in ok(server.sless("list"))
    ok(server.sless("delete", "hello"))
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(url, {})
    with caught.value as answer:
        assert answer.code == 404
    assert server.sless("describe", "hello").returncode == 1


def test_logs_show_what_the_handler_printed(server, folder):
    url = ok(server.sless("deploy", "talker", str(folder))).strip()
    call(url, {"mark": 1})
    call(url, {"mark": 4711}, **{"X-Request-Id": "order-4711"})
    wait_until(lambda: "called with {'mark': 4711}" in ok(server.sless("logs", "talker")), "the line is in the log")
    assert "4711" in ok(server.sless("logs", "talker", "--since", "5m", "--tail", "5"))
    line = json.loads(ok(server.sless("logs", "talker", "--tail", "1", "--output", "json")))
    assert (line["stream"], line["text"], line["request_id"]) == ("stdout", "called with {'mark': 4711}", "order-4711")
    assert line["time"].endswith("Z") and line["invocation_id"] != "order-4711"
    for key in ("invocation_id", "request_id"):
        found = json.loads(ok(server.sless("invocations", "talker", line[key], "--output", "json")))
        assert (found["id"], found["request_id"]) == (line["invocation_id"], "order-4711")
    ok(server.sless("delete", "talker"))


def test_a_service_has_a_url_immediately(server, folder):
    url = ok(server.sless("deploy", "notes", str(folder), "--service")).strip()
    assert call(url, [1])["event"] == [1]
    assert "service" in ok(server.sless("list"))
    ok(server.sless("delete", "notes"))


def test_an_asynchronous_call_can_be_looked_up(server, folder):
    ok(server.sless("deploy", "later", str(folder), "--no-http"))
    invocation = ok(server.sless("invoke", "later", "--async", "-d", '{"mark": 42}')).strip()

    def found() -> dict[str, Any]:
        return json.loads(ok(server.sless("invocations", "later", invocation, "--output", "json")))

    wait_until(lambda: found()["status"] == "succeeded", "the call has succeeded")
    assert json.loads(found()["result"])["event"] == {"mark": 42}
    wait_until(lambda: "called with {'mark': 42}" in [line["text"] for line in found()["logs"]], "its line is shown")
    ok(server.sless("delete", "later"))


def test_an_import_error_fails_the_deployment_with_its_reason(server, folder):
    (folder / "handler.py").write_text("import no_such_module_anywhere\n\ndef handle(event):\n    return 1\n")
    ended = server.sless("deploy", "broken", str(folder))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "no_such_module_anywhere" in ended.stderr
    assert 'Traceback (most recent call last):\n  File "' + str(Path.cwd()) not in ended.stderr
    (folder / "handler.py").write_text("def handle(event:\n")
    ended = server.sless("deploy", "broken", str(folder))
    assert ended.returncode == 1
    assert "handler.py" in ended.stderr
    assert "line 1" in ended.stderr or ":1" in ended.stderr
    ok(server.sless("delete", "broken"))


def test_a_raising_handler_fails_the_command(server, folder):
    (folder / "handler.py").write_text("def handle(event):\n    raise ValueError('boom')\n")
    ok(server.sless("deploy", "raiser", str(folder), "--no-http"))
    ended = server.sless("invoke", "raiser")
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["error"] == "boom"
    assert ended.stderr == "Error: function raiser answered 500\n"
    ok(server.sless("delete", "raiser"))


def test_commands_report_an_invalid_token_and_an_invalid_field(server, folder):
    ended = server.place.run("list", SLESS_URL=server.url, SLESS_TOKEN="x.y.z")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: ")
    assert "x.y.z" not in ended.stderr
    ended = server.sless("deploy", "tiny", str(folder), "--memory", "1")
    assert ended.returncode == 1
    assert "memory_mb" in ended.stderr


def test_invalid_settings_stop_the_server_with_a_one_line_error(place):
    ended = place.run("serve", "--port", "0", SLESS_AUTH_MODE="jwks", SLESS_JWKS_URL="nonsense")
    assert ended.returncode != 0
    assert "\nError: SLESS_JWKS_URL: expected an http(s) URL" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_serve_reports_a_port_or_data_folder_in_use(server, tmp_path):
    port = server.url.rpartition(":")[2]
    ended = server.place.run("serve", "--port", port, "--data-dir", str(tmp_path / "other"))
    assert (ended.returncode, ended.stderr) == (1, f"Error: port {port} on 127.0.0.1 is in use\n")
    ended = server.place.run("serve", "--port", "0")
    assert ended.returncode == 1
    assert "is in use by another sless server" in ended.stderr
