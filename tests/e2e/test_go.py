"""Go functions against a real server: deploy and call."""

import json
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from sless.client import connect, pack_folder
from tests.e2e.conftest import RunningServer, ok, wait_until
from tests.e2e.test_cli import call

pytestmark = [pytest.mark.xdist_group("cli"), pytest.mark.timeout(300)]


@pytest.fixture
def folder(repository: Path, tmp_path: Path, warm_go: None) -> Path:
    return Path(shutil.copytree(repository / "examples" / "hello-go", tmp_path / "hello-go"))


def test_deploy_and_call_the_example(server, folder):
    url = ok(server.sless("deploy", "hello-go", str(folder))).strip()
    assert call(url, {"name": "Ada"}) == {"message": "Hello, Ada!", "runtime": "go", "version": 1}
    with urllib.request.urlopen(f"{url}?name=Bob", timeout=40) as answer:
        assert json.load(answer)["message"] == "Hello, Bob!"
    wait_until(lambda: "greeting Ada, request " in ok(server.sless("logs", "hello-go")), "the line is in the log")
    assert describe(server, "hello-go")["runtime"] == "go1.23"
    ok(server.sless("set", "hello-go", "--idle-seconds", "1"))
    wait_until(lambda: describe(server, "hello-go")["ready_instances"] == 0, "no instance is running")
    assert call(url, {"name": "Eve"})["message"] == "Hello, Eve!"
    wait_until(lambda: [item["cold"] for item in invocations(server, "hello-go")] == [True, False, False], "a cold call in history")


def invocations(server: RunningServer, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(ok(server.sless("invocations", name, "--output", "json")))
    return found


def describe(server: RunningServer, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ok(server.sless("describe", name, "--output", "json")))
    return found


def test_a_compile_error_leaves_the_old_version_serving(server, folder):
    url = ok(server.sless("deploy", "go-stays", str(folder))).strip()
    source = (folder / "handler.go").read_text()
    (folder / "handler.go").write_text(source.replace("return map", "retrun map"))
    failed = server.sless("deploy", "go-stays", str(folder))
    assert failed.returncode == 1
    line = source.splitlines().index(next(text for text in source.splitlines() if "return map" in text)) + 1
    assert f"go build failed: handler.go:{line}:" in failed.stdout + failed.stderr
    assert call(url, {"name": "Ada"})["version"] == 1
    (folder / "handler.go").write_text(source.replace("Hello, ", "Good day, "))
    ok(server.sless("deploy", "go-stays", str(folder)))
    assert call(url, {"name": "Ada"})["message"] == "Good day, Ada!"
    ok(server.sless("rollback", "go-stays", "1"))
    assert call(url, {"name": "Ada"})["message"] == "Hello, Ada!"


ENDS = """package main

import (
	"fmt"
	"os"
)

func Handle(event map[string]any) (any, error) {
	fmt.Println("asked for", event["kind"])
	switch event["kind"] {
	case "panic":
		panic("a panic")
	case "exit":
		os.Exit(4)
	case "goroutine":
		go func() { panic("out of reach") }()
		select {}
	}
	return event, nil
}
"""


@pytest.mark.parametrize("with_instances", [True, False], ids=["instances", "one run per call"])
def test_panics_and_exits_are_reported_and_later_calls_served(server, warm_go, tmp_path, with_instances):
    (tmp_path / "main.go").write_text(ENDS)
    name = f"go-ends-{'instances' if with_instances else 'once'}"
    ok(server.sless("deploy", name, str(tmp_path), *([] if with_instances else ["--no-http"])))

    def invoke(kind: str) -> str:
        ended = server.sless("invoke", name, "-d", json.dumps({"kind": kind}))
        return ended.stdout + ended.stderr

    assert json.loads(invoke("none")) == {"kind": "none"}
    assert "a panic" in invoke("panic")
    assert "function exited with code 4" in invoke("exit")
    assert "function exited with code 2: panic: out of reach" in invoke("goroutine")
    assert json.loads(invoke("none")) == {"kind": "none"}
    wait_until(lambda: "panic: out of reach" in ok(server.sless("logs", name)), "the crash is in the log")


def test_a_job_runs_once(server, folder):
    with connect(server.url, server.token) as client:
        client.jobs.create({"name": "go-job", "runtime": "go1.23", "run_id": 1, "event_json": {"name": "Job"}})
        client.jobs.upload("go-job", pack_folder(folder).data)
        wait_until(lambda: client.jobs.get("go-job")["phase"] in ("Succeeded", "Failed"), "the job ends")
        job = client.jobs.get("go-job")
    assert (job["phase"], json.loads(job["message"])["message"]) == ("Succeeded", "Hello, Job!")


def test_an_event_of_the_wrong_type_is_400(server, folder):
    url = ok(server.sless("deploy", "go-strict", str(folder))).strip()
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(url, [1])
    with caught.value as answer:
        assert (answer.code, answer.headers["X-Sless-Error"]) == (400, "invalid_json")
        assert json.load(answer)["error"] == "the event must be a JSON object, not an array"
