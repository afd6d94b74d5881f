"""Features of Go only: signatures, panics, iterators and readers, contexts, output and exit."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sless.builder.failures import BuildFailed
from tests.conformance.go_programs import GO
from tests.conformance.harness import RuntimeProcess, command_of, request_bytes, require_runtime, run_once, running, wait_until

pytestmark = pytest.mark.timeout(300)  # the first program compiles Go's standard library


@pytest.fixture(autouse=True, scope="module")
def _needs_go() -> None:
    require_runtime(GO)


def code_env(folder: Path, source: str) -> dict[str, str]:
    """The environment of a handler in `handler/handler.go`, where the harness looks for `handler.…`."""
    (folder / "handler").mkdir()
    (folder / "handler" / "handler.go").write_text(source)
    return {"SLESS_CODE_DIR": str(folder)}


def job(entrypoint: str, event: Any, **env: str) -> dict[str, Any]:
    outcome = run_once(GO, entrypoint, {"SLESS_EVENT": json.dumps(event), **env}).outcome
    assert outcome is not None
    return outcome


SIGNATURES = """package handler

import (
	"context"
	"errors"
)

type Order struct {
	ID    string `json:"id"`
	Lines []struct{ Count int } `json:"lines"`
}

func Object(event map[string]any) any { return event["a"] }
func Any(event any) any { return event }
func WithContext(ctx context.Context, event map[string]any) any { return ctx.Value("sless").(map[string]any)["trigger"] }
func WithError(event map[string]any) (any, error) { return event["a"], nil }
func WithBoth(ctx context.Context, event any) (map[string]any, error) { return map[string]any{"event": event}, ctx.Err() }
func OnlyContext(ctx context.Context) string { return "context" }
func OnlyError(event any) error { return errors.New("no value") }
func Nothing() {}
func Typed(order Order) int { return order.Lines[0].Count }
func Pointer(order *Order) (*Order, error) { return nil, nil }
func Exact(order struct{ ID int64 }) int64 { return order.ID }
func Texts(names []string) string { return names[1] }
func TooMany(ctx context.Context, a, b any) any { return nil }
func Variadic(events ...any) any { return nil }
func TwoResults(event any) (any, any) { return nil, nil }
"""


@pytest.fixture(scope="module")
def signatures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return code_env(tmp_path_factory.mktemp("go"), SIGNATURES)


@pytest.mark.parametrize(
    ("function", "event", "result"),
    [
        ("Object", {"a": 1}, 1),
        ("Any", [1, "x"], [1, "x"]),
        ("WithContext", {}, "job"),
        ("WithError", {"a": "b"}, "b"),
        ("WithBoth", 5, {"event": 5}),
        ("OnlyContext", {}, "context"),
        ("Nothing", {}, None),
        ("Typed", {"lines": [{"Count": 3}]}, 3),
        ("Pointer", {"id": "x"}, None),
        ("Texts", ["a", "b"], "b"),
        ("Any", [2**53 + 1, 2**63 - 1, -(2**64), 0.5, 1e300], [2**53 + 1, 2**63 - 1, -(2**64), 0.5, 1e300]),
        ("Exact", {"id": 2**63 - 1}, 2**63 - 1),
    ],
)
def test_a_handler_may_have_any_of_these_signatures(signatures: dict[str, str], function: str, event: Any, result: Any) -> None:
    assert json.loads(job(f"handler.{function}", event, **signatures)["result"]) == result


@pytest.mark.parametrize("function", ["TooMany", "Variadic", "TwoResults"])
def test_wrong_signature_fails_the_check(signatures: dict[str, str], function: str) -> None:
    done = run_once(GO, f"handler.{function}", signatures, mode="check")
    assert done.exit_code == 1
    assert f"handler.{function}: expected func(event map[string]any) any" in done.stderr
    assert "found func(" in done.stderr


@pytest.mark.parametrize(
    ("function", "event", "error"),
    [
        ("Object", [1], "the event must be a JSON object, not an array"),
        ("Object", None, "the event must be a JSON object, not null"),
        ("Object", "x", "the event must be a JSON object, not a string"),
        ("Typed", {"lines": "none"}, "the event does not fit handler.Order: json: cannot unmarshal string"),
    ],
)
def test_event_that_does_not_fit_is_a_400(signatures: dict[str, str], function: str, event: Any, error: str) -> None:
    with running(GO, f"handler.{function}", signatures) as process:
        answer = process.call_json(event)
        assert (answer.status, answer.header("X-Sless-Fault"), answer.header("X-Sless-Function-Error")) == (400, "invalid_json", None)
        assert answer.json()["error"].startswith(error)
        assert process.log_lines() == []


# --- results ----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results() -> Iterator[RuntimeProcess]:
    with running(GO, "results.form") as process:
        yield process


@pytest.mark.parametrize(
    ("form", "status", "body"),
    [
        (
            "rich",
            200,
            '{"keys": {"1": "one", "2": "two"}, "point": {"x": 1, "y": [2], "more": null}, '
            '"pointer": {"x": 3, "y": null, "more": null}, "raw": "/wA=", "when": "2026-01-31T09:26:53.589Z"}',
        ),
        ("separators", 200, r'{"a": [1, 2], "b": "\u00fc\"\n<&>\ud83c\udf89", "\u043a\u043b\u044e\u0447": {}}'),
        ("struct_reply", 201, "made"),
        ("pointer_reply", 202, "made"),
        ("text_map", 404, "none"),
        ("nil_pointer", 204, ""),
        ("shared", 200, '[{"n": 1}, {"n": 1}]'),
    ],
)
def test_a_result_is_sent_in_its_json_form(results: RuntimeProcess, form: str, status: int, body: str) -> None:
    answer = results.call_json({"form": form})
    assert (answer.status, answer.body.decode()) == (status, body)


def test_a_header_may_be_a_time(results: RuntimeProcess) -> None:
    assert results.call_json({"form": "header_date"}).header("Last-Modified") == "Thu, 01 Jan 1970 00:00:00 GMT"


@pytest.mark.parametrize(("form", "place"), [("channel", "$.c is a channel"), ("struct_nan", "$.Ratio is NaN")])
def test_values_without_a_json_form_are_a_500(results: RuntimeProcess, form: str, place: str) -> None:
    answer = results.call_json({"form": form})
    assert (answer.status, answer.header("X-Sless-Fault")) == (500, "result_not_serializable")
    assert answer.json()["error"].endswith(place)


def test_result_that_is_100_000_levels_deep_does_not_end_the_process(results: RuntimeProcess) -> None:
    answer = results.call_json({"form": "abyss"})
    assert (answer.status, answer.header("X-Sless-Fault")) == (500, "result_not_serializable")
    assert answer.json()["error"].endswith("is nested too deeply")
    assert results.call_json({"form": "separators"}).status == 200


def test_number_out_of_range_is_a_400(signatures: dict[str, str]) -> None:
    with running(GO, "handler.Any", signatures) as process:
        answer = process.call("POST", "/", [("Content-Type", "application/json")], b"[1e400]")
        assert (answer.status, answer.header("X-Sless-Fault")) == (400, "invalid_json")


# --- errors -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "error", "error_type"),
    [
        ("own_type", "odd 3", "OddError"),
        ("wrapped", "outer: odd 3", "Error"),
        ("hostile", "Hostile", "Hostile"),
        ("panic_text", "just text", "Panic"),
        ("panic_nil_map", "assignment to entry in nil map", "RuntimeError"),
        ("index", "runtime error: index out of range [0] with length 0", "RuntimeError"),
    ],
)
def test_a_failure_is_a_500_with_its_message_and_type(kind: str, error: str, error_type: str) -> None:
    with running(GO, "errors.fail") as process:
        answer = process.call_json({"kind": kind})
        assert (answer.status, answer.json()["error"], answer.json()["type"]) == (500, error, error_type)


def test_stack_of_a_panic_shows_only_the_users_frames() -> None:
    with running(GO, "errors.fail") as process:
        process.call_json({"kind": "index"}, [("X-Sless-Invocation-Id", "i1")])
        texts = [line["text"] for line in process.wait_for_lines(lambda lines: len(lines) > 3, "i1")]
        assert texts[0] == "panic: RuntimeError: runtime error: index out of range [0] with length 0"
        assert "errors.deep(" in texts[1]
        assert "errors/errors.go:" in texts[2]
        assert not any("sless.internal" in text or str(Path(__file__).parent) in text for text in texts)


def test_goexit_ends_only_the_call() -> None:
    with running(GO, "errors.fail") as process:
        with process.connect() as connection, pytest.raises(ConnectionError):
            connection.request("POST", "/", [("Content-Type", "application/json")], b'{"kind": "goexit"}')
        assert process.health()["active"] == 0
        assert process.call_json({"kind": "raise"}).status == 500


def test_panic_in_a_goroutine_ends_the_process_with_a_message() -> None:
    with running(GO, "errors.fail") as process:
        with process.connect() as connection, pytest.raises(ConnectionError):
            connection.request("POST", "/", [("Content-Type", "application/json")], b'{"kind": "goroutine"}')
        assert process.finish() == 2
        assert any("panic: nobody catches this" in line for line in process.errors)


def test_os_exit_keeps_written_output() -> None:
    with running(GO, "errors.fail") as process:
        with process.connect() as connection, pytest.raises(ConnectionError):
            connection.request("POST", "/", [("Content-Type", "application/json"), ("X-Sless-Invocation-Id", "i1")], b'{"kind": "exit"}')
        assert process.finish() == 3
        last = json.loads(process.output[-1])
        assert (last["text"], last["id"]) == ("last words", "i1")


# --- output -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("raw_rest", [("stdout", "raw without newline")]),
        ("log", [("stderr", "by log")]),
        ("slog", [("stderr", 'level=INFO msg="by slog" n=1')]),
        ("println", [("stderr", "built in 1")]),
        ("writer", [("stdout", "by the call's writer")]),
        ("goroutines", [("stdout", "from a goroutine")] * 3),
        ("order", [("stdout", f"{what} {number}") for number in range(20) for what in ("raw", "print")]),
        ("split_character", [("stdout", "ü")]),
        ("endless_line", [("stdout", "x" * 16384 + " …[cut]"), ("stdout", "after")]),
    ],
)
def test_output_becomes_lines_of_the_call(kind: str, lines: list[tuple[str, str]]) -> None:
    with running(GO, "logs.write") as process:
        process.call_json({"kind": kind}, [("X-Sless-Invocation-Id", "i1")])
        found = process.wait_for_lines(lambda arrived: len(arrived) >= len(lines), "i1")
        assert [(line["stream"], line["text"]) for line in found] == lines


def test_lines_of_concurrent_goroutines_belong_to_their_calls() -> None:
    with running(GO, "logs.write") as process:

        def call(number: int) -> None:
            for _ in range(10):
                process.call_json({"kind": "goroutines"}, [("X-Sless-Invocation-Id", f"i{number}")])

        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = process.log_lines()
        assert {f"i{number}": sum(line["id"] == f"i{number}" for line in lines) for number in range(4)} == dict.fromkeys(
            ("i0", "i1", "i2", "i3"), 30
        )


def test_init_in_every_package_is_captured(tmp_path: Path) -> None:
    (tmp_path / "aaa").mkdir()
    (tmp_path / "aaa" / "a.go").write_text(
        'package aaa\n\nimport "fmt"\n\nvar X = say()\n\nfunc say() int { fmt.Println("first"); return 1 }\n'
    )
    source = 'package handler\n\nimport "function/aaa"\n\nfunc Handle(event any) any { return aaa.X }\n'
    with running(GO, "handler.handle", code_env(tmp_path, source)) as process:
        assert [(line["stream"], line["text"], line["id"]) for line in process.log_lines()] == [("stdout", "first", "")]


# --- streams, deadlines, leaving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status", "body", "content_type"),
    [
        ("reader", 200, b"from a reader", "application/octet-stream"),
        ("reader_status", 203, b"read", "application/octet-stream"),
        ("mixed", 200, b"text", "text/plain; charset=utf-8"),
    ],
)
def test_readers_and_iterators_are_streamed(kind: str, status: int, body: bytes, content_type: str) -> None:
    with running(GO, "streams.stream") as process:
        answer = process.call_json({"kind": kind})
        assert (answer.status, answer.body, answer.header("Content-Type")) == (status, body, content_type)
        assert answer.chunks


def test_stream_whose_first_chunk_is_an_error() -> None:
    with running(GO, "streams.stream") as process:
        answer = process.call_json({"kind": "first_is_error"})
        assert (answer.status, answer.json()["error"]) == (500, "no first")


def test_reader_that_fails_later_aborts_the_answer() -> None:
    with running(GO, "streams.stream") as process:
        answer = process.call_json({"kind": "reader_fails"}, [("X-Sless-Invocation-Id", "i1")])
        assert (answer.chunks, answer.complete) == ([b"first"], False)
        process.wait_for_lines(lambda lines: any("cannot be read any more" in line["text"] for line in lines), "i1")


def test_reader_is_closed_when_the_caller_leaves() -> None:
    with running(GO, "streams.piped") as process:
        with process.connect() as connection:
            connection.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.read_head()[0] == 200
            assert connection.read_chunk() == b"tick\n"
        process.wait_for_lines(lambda lines: any(line["text"] == "closed" for line in lines))
        wait_until(lambda: process.health()["active"] == 0, "the call to end")


def send_event(connection: Any, event: Any, *headers: tuple[str, str]) -> None:
    connection.send(request_bytes("POST", "/", [("Content-Type", "application/json"), *headers], json.dumps(event).encode()))


def test_deadline_and_leaving_cancel_the_context(tmp_path: Path) -> None:
    with running(GO, "waits.pause") as process:
        with process.connect() as late:
            send_event(late, {"gate": str(tmp_path / "never")}, ("X-Sless-Timeout-Ms", "1000"), ("X-Sless-Invocation-Id", "late"))
            with pytest.raises(ConnectionError):
                late.read_answer()
        with process.connect() as leaving:
            send_event(leaving, {"gate": str(tmp_path / "never")}, ("X-Sless-Invocation-Id", "left"))
            wait_until(lambda: process.health()["active"] == 1, "the call to run")
        for call in ("late", "left"):
            process.wait_for_lines(lambda lines: any(line["text"] == "cancelled" for line in lines), call)
        wait_until(lambda: process.health()["active"] == 0, "the calls to end")


def test_handler_that_ignores_its_context_is_overdue_and_frees_its_slot(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(GO, "waits.block", {"SLESS_CONCURRENCY": "1"}) as process, process.connect() as blocked, process.connect() as late:
        send_event(blocked, {"gate": str(gate), "name": "blocked"}, ("X-Sless-Timeout-Ms", "1500"))
        wait_until(lambda: process.health()["active"] == 1, "the first call to run")
        send_event(late, {"name": "late"}, ("X-Sless-Timeout-Ms", "100"))
        assert process.call_json({"name": "next"}).json() == {"name": "next"}
        assert process.health() == {"active": 1, "overdue": 1, "pid": process.process.pid}
        for connection in (blocked, late):
            with pytest.raises(ConnectionError):
                connection.read_answer()
        gate.touch()
        wait_until(lambda: process.health()["active"] == 0, "the blocked call to end")
        texts = [line["text"] for line in process.log_lines() if line["id"]]
        assert texts == ["started blocked", "started next", "finished next", "finished blocked"]


def test_call_whose_caller_leaves_the_queue_never_starts(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(GO, "waits.block", {"SLESS_CONCURRENCY": "1"}) as process, process.connect() as first:
        send_event(first, {"gate": str(gate), "name": "first"})
        wait_until(lambda: process.health()["active"] == 1, "the first call to run")
        with process.connect() as gone:
            send_event(gone, {"name": "gone"})
            process.health()
        time.sleep(1)  # the runtime checks its callers every 20 ms
        gate.touch()
        assert first.read_answer().status == 200
        assert process.call_json({"name": "last"}).status == 200
        assert not any("gone" in line["text"] for line in process.log_lines())


def test_sigterm_belongs_to_the_runtime_in_a_job(tmp_path: Path) -> None:
    source = 'package handler\n\nimport ("os"; "syscall"; "time")\n\nfunc Handle(event any) any {\n'
    source += "\tsyscall.Kill(os.Getpid(), syscall.SIGTERM)\n"
    env = code_env(tmp_path, source + '\ttime.Sleep(50 * time.Millisecond)\n\treturn "finished"\n}\n')
    assert job("handler.handle", {}, **env)["body"] == "finished"


def test_non_blocking_lifeline_works() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with running(GO, "events.echo", {"SLESS_LIFELINE_FD": str(reading)}, pass_fds=(reading,)) as process:
        os.close(reading)
        assert process.call_json(1).status == 200
        os.close(writing)
        assert process.finish() == -signal.SIGKILL


def test_paths_arrive_unchanged() -> None:
    with running(GO, "events.show") as process:
        http = process.call("GET", "/a%zz/%2e%2e//%?b=%&c=%zz&d;e").json()["http"]
        assert (http["raw_path"], http["path"]) == ("/a%zz/%2e%2e//%", "/a%zz/..//%")
        assert http["query"] == {"b": "%", "c": "%zz", "d;e": ""}


# --- the program --------------------------------------------------------------------------------------------------------------------------


def test_the_program_is_static_and_small() -> None:
    program = Path(command_of(GO, "events.echo")[0])
    assert program.stat().st_size < 5_000_000
    text = program.read_bytes()
    assert str(Path(__file__).resolve().parents[2]).encode() not in text
    linked = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    assert "not a dynamic executable" in linked.stdout + linked.stderr


def test_without_hooks_lines_of_single_calls_are_still_attributed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an unexpected package os, the runtime falls back to the descriptors."""
    monkeypatch.setattr("tests.conformance.go_programs.HOOKS", False)
    env = code_env(tmp_path, 'package handler\n\nimport "fmt"\n\nfunc Handle(event any) any { fmt.Println("one"); return nil }\n')
    with running(GO, "handler.handle", env) as process:
        for number in range(3):
            assert process.call_json({}, [("X-Sless-Invocation-Id", f"i{number}")]).status == 204
        assert [(line["id"], line["text"]) for line in process.log_lines()] == [("i0", "one"), ("i1", "one"), ("i2", "one")]
        process.process.send_signal(signal.SIGTERM)
        assert process.finish() == 0


def test_compile_errors_name_file_and_line(tmp_path: Path) -> None:
    env = code_env(tmp_path, "package handler\n\nfunc Handle(event any) any {\n\treturn missing\n}\n")
    with pytest.raises(BuildFailed, match=r"^go build failed: handler/handler\.go:4:9: undefined: missing"):
        command_of(GO, "handler.handle", Path(env["SLESS_CODE_DIR"]))
