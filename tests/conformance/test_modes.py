"""Job and check mode, failing starts, exit codes, and output on the real stdout."""

import json
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.go_programs import GO, go_name_of
from tests.conformance.harness import (
    RUNTIMES,
    Outcome,
    command_of,
    environment_of,
    require_runtime,
    run_once,
    running,
    start_process,
    wait_until,
)

pytestmark = pytest.mark.timeout(300)  # the first program compiles Go's standard library
PYTHON_ONLY = pytest.mark.parametrize("runtime", ["python3.11"], indirect=True)


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    require_runtime(name)
    return name


def job(runtime: str, entrypoint: str, event: Any = None, **env: str) -> dict[str, Any]:
    """The outcome of a job, checked against its exit code."""
    done = run_once(runtime, entrypoint, {**({} if event is None else {"SLESS_EVENT": json.dumps(event)}), **env})
    return outcome_of(done)


def outcome_of(done: Outcome) -> dict[str, Any]:
    assert done.outcome is not None, done
    assert done.exit_code == (0 if done.outcome["ok"] else 1), done
    assert done.stderr == ""
    return done.outcome


def header_of(outcome: dict[str, Any], name: str) -> str | None:
    return next((value for key, value in outcome["headers"] if key.lower() == name), None)


def test_a_job_returns_its_result_as_json(runtime: str) -> None:
    outcome = job(runtime, "events.echo", {"a": [1, "ü"]})
    assert json.loads(outcome["result"]) == {"event": {"a": [1, "ü"]}}
    assert json.loads(outcome["body"]) == {"event": {"a": [1, "ü"]}}
    assert outcome["status"] == 200
    assert outcome["error"] is None
    assert outcome["error_type"] is None
    assert header_of(outcome, "content-type") == "application/json"


def test_a_job_without_an_event_gets_an_empty_one(runtime: str) -> None:
    assert json.loads(job(runtime, "events.echo")["result"]) == {"event": {}}


def test_an_event_that_is_not_json_becomes_a_body(runtime: str) -> None:
    assert json.loads(job(runtime, "events.echo", SLESS_EVENT="plain words")["result"]) == {"event": {"body": "plain words"}}


def test_a_job_reads_a_large_event_from_a_file(runtime: str, tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text(json.dumps({"big": "x" * 300_000}))
    assert len(json.loads(job(runtime, "events.echo", SLESS_EVENT_FILE=str(file))["result"])["event"]["big"]) == 300_000


def test_a_job_gets_request_id_and_trigger_from_its_environment(runtime: str) -> None:
    outcome = job(runtime, "events.show", 1, SLESS_REQUEST_ID="req-5", SLESS_TRIGGER="cron", SLESS_TIMEOUT_SEC="25")
    shown = json.loads(outcome["result"])
    assert shown["http"] is None
    assert shown["context"]["request_id"] == "req-5"
    assert shown["context"]["trigger"] == "cron"
    assert shown["context"]["remaining_is_plausible"] is True
    assert json.loads(job(runtime, "events.show", 1)["result"])["context"]["trigger"] == "job"


@pytest.mark.parametrize(
    ("form", "result", "body"),
    [("text", "Grüße", "Grüße"), ("number", 42, "42"), ("nothing", None, ""), ("empty_text", "", ""), ("array", [1, 2], None)],
)
def test_a_job_may_return_any_form_of_result(runtime: str, form: str, result: Any, body: str | None) -> None:
    outcome = job(runtime, "results.form", {"form": form})
    assert json.loads(outcome["result"]) == result
    assert body is None or outcome["body"] == body


def test_a_job_keeps_status_and_headers_of_its_result(runtime: str) -> None:
    outcome = job(runtime, "results.form", {"form": "status"})
    assert outcome["status"] == 201
    assert outcome["body"] == "made"
    assert header_of(outcome, "x-made") == "yes"
    assert json.loads(outcome["result"]) == "made"


def test_bytes_of_a_job_are_base64(runtime: str) -> None:
    outcome = job(runtime, "results.form", {"form": "binary"})
    assert outcome["body_base64"].startswith("AAECAw")
    assert "body" not in outcome
    assert json.loads(outcome["result"]).startswith("AAECAw")


@pytest.mark.parametrize(("kind", "text"), [("text", "one two three"), ("async", "one two")])
def test_job_collects_a_stream(runtime: str, kind: str, text: str) -> None:
    outcome = job(runtime, "streams.stream", {"kind": kind})
    assert outcome["body"] == text
    assert json.loads(outcome["result"]) == text


def test_a_failed_job_has_error_and_type(runtime: str) -> None:
    done = run_once(runtime, "errors.fail", {"SLESS_EVENT": '{"kind": "raise"}', "SLESS_INVOCATION_ID": "inv-3"})
    outcome = outcome_of(done)
    assert outcome["ok"] is False
    assert outcome["result"] is None
    assert outcome["error"] == "went wrong: 7"
    assert outcome["error_type"] in ("RuntimeError", "Error")
    assert outcome["status"] == 500
    assert any("went wrong: 7" in line["text"] and line["id"] == "inv-3" for line in done.lines)


def test_a_job_whose_stream_fails_has_failed(runtime: str) -> None:
    outcome = job(runtime, "streams.stream", {"kind": "fails_later"})
    assert (outcome["ok"], outcome["error"], outcome["status"]) == (False, "after the first", 500)


def test_a_job_that_exits_reports_the_code(runtime: str) -> None:
    outcome = job(runtime, "errors.fail", {"kind": "exit"})
    assert outcome["error"] == "function exited with code 3"
    assert outcome["status"] == 500


def test_a_bad_result_of_a_job_is_a_502(runtime: str) -> None:
    outcome = job(runtime, "results.form", {"form": "status_too_high"})
    assert (outcome["ok"], outcome["status"], outcome["error_type"]) == (False, 502, "bad_result")
    assert "600" in outcome["error"]


def test_an_unserializable_result_of_a_job_is_a_500(runtime: str) -> None:
    outcome = job(runtime, "results.form", {"form": "nan"})
    assert (outcome["ok"], outcome["status"], outcome["error_type"]) == (False, 500, "result_not_serializable")
    assert "items[1].ratio" in outcome["error"]


def test_job_without_result_file_ends_with_the_outcome(runtime: str) -> None:
    done = run_once(runtime, "logs.write", {"SLESS_EVENT": '{"kind": "print"}', "SLESS_INVOCATION_ID": "inv-4"}, result_file=False)
    assert [(line["stream"], line["id"], line["text"]) for line in done.lines] == [("stdout", "inv-4", "one"), ("stdout", "inv-4", "two")]
    last = json.loads(done.stdout.splitlines()[-1])
    assert list(last) == ["sless_outcome"]
    assert outcome_of(done)["result"] == '"done"'


def test_a_job_whose_handler_cannot_be_imported_fails(runtime: str) -> None:
    done = run_once(runtime, "broken_raise.handle", {})
    if runtime == GO:  # a panic before main cannot be caught: Go ends the process
        assert (done.exit_code, done.outcome) == (2, None)
        assert "broken while imported" in done.stderr
        return
    assert done.exit_code == 1
    assert done.outcome is not None
    assert "broken while imported" in done.outcome["error"]
    assert any("broken while imported" in line["text"] for line in done.lines)


def test_job_that_ends_its_process_leaves_no_outcome(runtime: str) -> None:
    done = run_once(runtime, "waits.die", {"SLESS_EVENT": '{"code": 6}'})
    assert (done.exit_code, done.outcome) == (6, None)


def test_sigterm_lets_a_job_finish(runtime: str, tmp_path: Path) -> None:
    gate, result = tmp_path / "gate", tmp_path / "result"
    event = json.dumps({"gate": str(gate), "name": "x"})
    env = {"SLESS_MODE": "job", "SLESS_EVENT": event, "SLESS_RESULT_FILE": str(result)}
    process = start_process(runtime, "waits.pause", env)
    wait_until(lambda: any("started x" in line for line in process.output), "the job to start")
    process.process.send_signal(signal.SIGTERM)
    gate.touch()
    assert process.finish() == 0
    assert json.loads(json.loads(result.read_text())["body"]) == {"name": "x"}


def test_the_check_of_a_good_handler_passes(runtime: str) -> None:
    done = run_once(runtime, "waits.pause", {}, mode="check")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "imported\n"


@pytest.mark.parametrize(
    ("entrypoint", "texts"),
    [
        ("broken_raise.handle", ["broken_raise.", "broken while imported"]),
        ("broken_exit.handle", ["exited with code 5 while it was imported"]),
        ("broken_nothing.handle", ["handle", "some_function"]),
        ("broken_nothing.not_callable", ["not_callable", "expected a function"]),
        ("no_such_module.handle", ["no_such_module"]),
        ("handle", ["module.function"]),
    ],
)
def test_check_says_what_is_wrong(runtime: str, entrypoint: str, texts: list[str]) -> None:
    done = run_once(runtime, entrypoint, {}, mode="check")
    assert done.exit_code == (2 if runtime == GO and entrypoint == "broken_raise.handle" else 1)
    for text in texts:
        assert text in done.stderr or (runtime == GO and go_name_of(text) in done.stderr)
    assert done.stderr.count("Error: broken while imported") <= 1, "the reason appears once"
    assert '"seq"' not in done.stderr + done.stdout


@PYTHON_ONLY
def test_check_traceback_starts_in_the_users_file(runtime: str) -> None:
    done = run_once(runtime, "broken_raise.handle", {}, mode="check")
    assert "sless_runtime" not in done.stderr
    assert done.stderr.count("File ") == 1


@PYTHON_ONLY
def test_the_check_fails_for_a_handler_with_three_arguments(runtime: str) -> None:
    done = run_once(runtime, "broken_nothing.needs_three", {}, mode="check")
    assert done.exit_code == 1
    assert "needs 3 arguments" in done.stderr


@PYTHON_ONLY
@pytest.mark.parametrize(
    ("function", "result"),
    [
        ("nothing", "none"),
        ("second_has_default", "r1"),
        ("second_is_something_else", {"verbose": False}),
        ("anything", 2),
        ("decorated", {"a": "x"}),
        ("method", {"method": "r1"}),
        ("instance", {"object": {"a": "x"}}),
        ("partial", "p-x"),
    ],
)
def test_arguments_follow_the_signature(runtime: str, function: str, result: Any) -> None:
    assert json.loads(job(runtime, f"signatures.{function}", {"a": "x"}, SLESS_REQUEST_ID="r1")["result"]) == result


@pytest.mark.parametrize(
    ("entrypoint", "text"), [("broken_raise.handle", "broken while imported"), ("broken_exit.handle", "exited with code 5")]
)
def test_server_never_listens_when_the_import_fails(runtime: str, entrypoint: str, text: str) -> None:
    process = start_process(runtime, entrypoint)
    if runtime == GO and entrypoint == "broken_raise.handle":
        assert process.finish() == 2
        assert any(text in line for line in process.errors)
        return
    assert process.finish() == 1
    lines = [json.loads(line) for line in process.output]
    assert any(text in line["text"] and line["id"] == "" for line in lines)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLESS_MODE", "sideways"),
        ("SLESS_CONCURRENCY", "many"),
        ("SLESS_SOCKET", "/tmp/" + "x" * 100),
        ("SLESS_CODE_DIR", "/nowhere/at/all"),
        ("SLESS_EVENT_FORMAT", "aws-v1"),
        ("SLESS_LIFELINE_FD", "77"),
    ],
)
def test_wrong_environment_is_exit_code_2(runtime: str, name: str, value: str) -> None:
    done = subprocess.run(
        command_of(runtime, "events.echo"),
        env={**environment_of(runtime, "events.echo"), name: value},
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
    )
    assert done.returncode == 2
    assert name in done.stderr
    assert value in done.stderr or "100" in done.stderr


def test_a_missing_event_file_is_exit_code_2(runtime: str) -> None:
    done = run_once(runtime, "events.echo", {"SLESS_EVENT_FILE": "/nowhere/event.json"})
    assert (done.exit_code, done.outcome) == (2, None)
    assert "/nowhere/event.json" in done.stderr


def test_lines_outside_of_calls_have_no_id(runtime: str) -> None:
    with running(runtime, "waits.pause") as process:
        lines = process.log_lines()
        assert [(line["seq"], line["stream"], line["id"], line["text"]) for line in lines] == [(1, "stdout", "", "imported")]
        assert len(lines[0]["time"]) == len("2026-01-31T09:26:53.589Z")


def test_flood_is_capped_for_each_call(runtime: str) -> None:
    with running(runtime, "logs.flood") as process:
        for call in ("i1", "i2"):
            process.call_json({"count": 4000}, [("X-Sless-Invocation-Id", call)])
        first = [line for line in all_lines(process) if line["id"] == "i1"]
        assert first[-1]["text"] == "[log over 256 KB: the rest of this call is dropped]"
        assert 256 * 1024 - 300 <= sum(len(line["text"]) + 1 for line in first[:-1]) <= 256 * 1024
        second = [line for line in all_lines(process) if line["id"] == "i2"]
        assert len(second) == len(first)


def all_lines(process: Any) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    while page := process.log_lines(after=lines[-1]["seq"] if lines else 0):
        assert len(page) <= 1000
        lines += page
    return lines


def test_ring_keeps_the_newest_and_stdout_has_all(runtime: str) -> None:
    with running(runtime, "logs.flood") as process:
        for call in range(14):
            assert process.call_json({"count": 4000}, [("X-Sless-Invocation-Id", f"i{call}")]).status == 200
        page = process.control("/_sless/logs?after=0")
        lines = all_lines(process)
        assert page["dropped"] > 0
        assert lines[0]["seq"] == page["dropped"] + 1
        assert [line["seq"] for line in lines] == list(range(lines[0]["seq"], page["last"] + 1))
        assert process.control(f"/_sless/logs?after={page['last']}")["lines"] == []
        assert sum(len(json.dumps(line)) for line in lines) <= 4 * 1024 * 1024 * 1.1
        wait_until(lambda: len(process.output) == page["last"], "all lines on stdout")
        written = [json.loads(line) for line in process.output]
        assert [line["seq"] for line in written] == list(range(1, page["last"] + 1))
        assert written[-len(lines) :] == lines


@PYTHON_ONLY
def test_a_job_may_start_processes(runtime: str) -> None:
    assert json.loads(job(runtime, "waits.own_concurrency", {"kind": "processes"})["result"]) == [0, 1, 4]


@PYTHON_ONLY
def test_forked_child_of_a_job_ends_on_sigterm(runtime: str) -> None:
    assert json.loads(job(runtime, "waits.end_child")["result"]) == -signal.SIGTERM


@PYTHON_ONLY
def test_installed_packages_come_last(runtime: str, tmp_path: Path) -> None:
    deps = tmp_path / "deps"
    (deps / "extra").mkdir(parents=True)
    (deps / "json.py").write_text("raise ImportError('the standard library comes first')")
    (deps / "only_here.py").write_text("VALUE = 'from the packages'")
    (deps / "extra" / "through_pth.py").write_text("VALUE = 'through a .pth file'")
    (deps / "more.pth").write_text("extra\n")
    code = tmp_path / "code"
    code.mkdir()
    (code / "handler.py").write_text(
        "import json, subprocess, sys, only_here, through_pth, runpy\n"
        "def handle(event):\n"
        "    child = subprocess.run([sys.executable, '-c', 'import only_here; print(only_here.VALUE)'], capture_output=True, text=True)\n"
        "    return [only_here.VALUE, through_pth.VALUE, child.stdout.strip(), [p for p in sys.path if 'runtimes' in p]]\n"
    )
    outcome = job(runtime, "handler.handle", SLESS_CODE_DIR=str(code), SLESS_DEPS_DIR=str(deps))
    assert json.loads(outcome["result"]) == ["from the packages", "through a .pth file", "from the packages", []]


@PYTHON_ONLY
def test_exit_functions_run_on_sigterm(runtime: str, tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text("import atexit\natexit.register(print, 'good bye')\ndef handle(event): pass\n")
    with running(runtime, "handler.handle", {"SLESS_CODE_DIR": str(tmp_path)}) as process:
        os.kill(process.process.pid, signal.SIGTERM)
        assert process.finish() == 0
        assert json.loads(process.output[-1])["text"] == "good bye"


EXHAUSTIONS = {
    "descriptors": "too many open files",
    "wrapped_exhaustion": "the service cannot be reached",
    "exhausted_stream": "too many open files",
    "no_process": "",
    "no_thread": "",
}
CASES = [(runtime, kind) for runtime in RUNTIMES for kind in EXHAUSTIONS if (runtime, kind) != (GO, "no_thread")]
"""Go itself ends a process that gets no thread."""


@pytest.mark.parametrize(("runtime", "kind"), CASES, indirect=["runtime"])
def test_a_process_in_which_no_call_can_succeed_ends_to_be_replaced(runtime: str, kind: str) -> None:
    with running(runtime, "errors.fail") as process, process.connect() as connection:
        resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (60, 60))
        body = json.dumps({"kind": kind}).encode()

        def has_ended() -> bool:
            try:
                answer = connection.request("POST", "/", [("Content-Type", "application/json")], body)
            except OSError:
                return True
            assert answer.status == 500 and EXHAUSTIONS[kind] in answer.json()["error"].lower(), answer
            return answer.header("Connection") == "close"

        wait_until(has_ended, "the end of the process")
        assert process.finish() == 0
        assert any("this instance ends and is replaced" in line for line in process.output)
