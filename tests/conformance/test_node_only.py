"""Features of Node only: module forms, callbacks, event-loop errors, output, results and exit."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.harness import (
    Answer,
    Connection,
    Outcome,
    RuntimeProcess,
    request_bytes,
    require_runtime,
    run_once,
    running,
    start_process,
    wait_listening,
    wait_until,
)

NODE = "nodejs20"


@pytest.fixture(autouse=True)
def _needs_node() -> None:
    require_runtime(NODE)


def code_env(folder: Path, files: dict[str, str]) -> dict[str, str]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"SLESS_CODE_DIR": str(folder)}


def call_once(entrypoint: str, event: Any, env: dict[str, str] | None = None) -> Answer:
    with running(NODE, entrypoint, env) as process:
        return process.call_json(event)


def test_node_env_is_production_unless_the_user_sets_it(tmp_path: Path) -> None:
    env = code_env(tmp_path, {"handler.js": "exports.handle = () => process.env.NODE_ENV;"})
    assert call_once("handler.handle", {}, env).text_body() == "production"
    assert call_once("handler.handle", {}, {**env, "NODE_ENV": "test"}).text_body() == "test"


MODULE_FORMS: list[tuple[str, str, dict[str, str]]] = [
    ("commonjs", "handler.handle", {"handler.js": "exports.handle = (e) => e.n;"}),
    ("commonjs-object", "handler.handle", {"handler.js": "module.exports = { factor: 1, handle(e) { return e.n * this.factor; } };"}),
    ("commonjs-function", "handler.handle", {"handler.js": "module.exports = (e) => e.n;"}),
    ("cjs-suffix", "handler.handle", {"handler.cjs": "exports.handle = (e) => e.n;", "package.json": '{"type": "module"}'}),
    ("mjs-function", "handler.handle", {"handler.mjs": "export function handle(e) { return e.n; }"}),
    ("mjs-const", "handler.handle", {"handler.mjs": "export const handle = async (e) => e.n;"}),
    ("default-function", "handler.handle", {"handler.mjs": "export default (e) => e.n;"}),
    ("default-object", "handler.handle", {"handler.mjs": "export default { factor: 1, handle(e) { return e.n * this.factor; } };"}),
    ("type-module", "handler.handle", {"handler.js": "export const handle = (e) => e.n;", "package.json": '{"type": "module"}'}),
    (
        "type-module-awaits",
        "handler.handle",
        {"handler.js": "const f = await Promise.resolve(1); export const handle = (e) => e.n * f;", "package.json": '{"type": "module"}'},
    ),
    (
        "compiled-default",
        "handler.handle",
        {"handler.js": "Object.defineProperty(exports, '__esModule', { value: true }); exports.default = { handle: (e) => e.n };"},
    ),
    (
        "sub-folder",
        "src/app.run",
        {"src/app.mjs": "import { f } from './f.mjs'; export const run = (e) => e.n * f;", "src/f.mjs": "export const f = 1;"},
    ),
    ("folder-index", "app.run", {"app/index.js": "exports.run = (e) => e.n;"}),
    (
        "node-modules",
        "handler.handle",
        {"handler.js": "exports.handle = (e) => require('one') * e.n;", "node_modules/one/index.js": "module.exports = 1;"},
    ),
    (
        "package-from-mjs",
        "handler.handle",
        {
            "handler.mjs": "import one from 'one'; export const handle = (e) => one * e.n;",
            "node_modules/one/index.js": "module.exports = 1;",
        },
    ),
    ("js-before-folder", "app.run", {"app.js": "exports.run = (e) => e.n;", "app/index.js": "exports.run = () => 'wrong';"}),
]


@pytest.mark.parametrize(("entrypoint", "files"), [pytest.param(*form[1:], id=form[0]) for form in MODULE_FORMS])
def test_a_handler_may_have_any_module_form(tmp_path: Path, entrypoint: str, files: dict[str, str]) -> None:
    assert call_once(entrypoint, {"n": 5}, code_env(tmp_path, files)).json() == 5


IMPORT_FAILURES: list[tuple[str, dict[str, str], str]] = [
    ("no-module", {"other.js": ""}, "none of handler.js, handler.mjs, handler.cjs"),
    ("no-export", {"handler.js": "exports.a = 1; exports.b = 2;"}, "exports no handle, only: a, b"),
    ("not-a-function", {"handler.mjs": "export const handle = 7;"}, "expected a function in handler, found number"),
    ("syntax", {"handler.js": "exports.handle = (;"}, "handler.js:1\nexports.handle = (;"),
    ("syntax-of-module", {"handler.mjs": "\nexport const handle = (;"}, "handler.mjs:2\nexport const handle = (;"),
    ("syntax-of-imported", {"handler.mjs": "import './lib/more.mjs';", "lib/more.mjs": "\n\nlet = ;"}, "lib/more.mjs:3\nlet = ;"),
    ("syntax-of-data", {"handler.mjs": "JSON.parse('{');"}, "at handler.mjs:1"),
    ("raises", {"handler.js": "throw new RangeError('at import');"}, "RangeError: at import"),
    (
        "rejects-later",
        {"handler.mjs": "Promise.reject(new Error('nobody waits')); await new Promise((r) => setTimeout(r, 5000));"},
        "nobody waits",
    ),
    ("exits", {"handler.js": "process.exit(0);"}, "exited with code 0 while it was imported"),
    ("exits-with-code", {"handler.mjs": "process.exit(9);"}, "exited with code 9 while it was imported"),
    ("never-ends", {"handler.mjs": "await new Promise(() => {}); export const handle = 1;"}, "waits for something that never happens"),
    ("missing-package", {"handler.js": "\nrequire('no-such');"}, "handler.js:2: Error: Cannot find module 'no-such'\n"),
    (
        "missing-package-deeper",
        {"handler.js": "require('./lib/a');", "lib/a.js": "\n\nrequire('no-such');"},
        "lib/a.js:3: Error: Cannot find module 'no-such'\n",
    ),
    ("missing-package-of-module", {"handler.mjs": "\nimport a from 'no-such';"}, "handler.mjs:2: Error: Cannot find package 'no-such'"),
    (
        "missing-file-of-module",
        {"handler.mjs": "\nimport a from './no-such.mjs';"},
        "handler.mjs:2: Error: Cannot find module 'no-such.mjs'",
    ),
    ("syntax-at-the-end", {"handler.js": "exports.handle = () => {\n\n"}, "handler.js:3: SyntaxError: Unexpected end of input\n"),
    ("syntax-at-the-end-of-module", {"handler.mjs": "export const handle = () => {\n\n"}, "handler.mjs:3: SyntaxError: Unexpected end"),
    (
        "wrapped",
        {"handler.js": "try {\n  JSON.parse('{');\n} catch (cause) {\n  throw new Error('no config', { cause });\n}"},
        "handler.js:2: Error: no config, caused by SyntaxError: Expected property name",
    ),
    (
        "wrapped-by-hand",
        {"handler.js": "throw Object.assign(new Error('no config'), { stack: new Error('x').stack });"},
        "handler.js:1: Error: no config\n",
    ),
]


@pytest.mark.parametrize(("files", "expected"), [pytest.param(*failure[1:], id=failure[0]) for failure in IMPORT_FAILURES])
def test_an_import_failure_is_reported(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    env = code_env(tmp_path, files)
    checked = run_once(NODE, "handler.handle", env, mode="check")
    assert checked.exit_code == 1
    assert expected in checked.stderr
    assert '"seq"' not in checked.stderr + checked.stdout
    process = start_process(NODE, "handler.handle", env)
    assert process.finish() == 1
    lines = [json.loads(line) for line in process.output]
    assert expected in "\n".join(line["text"] for line in lines)
    assert {line["stream"] for line in lines} == {"stderr"}


def test_the_check_passes_although_timers_run(tmp_path: Path) -> None:
    env = code_env(tmp_path, {"handler.js": "setInterval(() => {}, 1000); exports.handle = () => 1;"})
    assert run_once(NODE, "handler.handle", env, mode="check").exit_code == 0


CALLBACKS = [
    ("aws.callback", {"a": 1}, {"a": 1}),
    ("aws.done", {"a": 1}, {"a": 1}),
    ("aws.succeed", {"a": 1}, {"a": 1}),
    ("aws.callback_and_promise", {}, b"first"),
]


@pytest.mark.parametrize(("entrypoint", "event", "expected"), CALLBACKS)
def test_a_handler_may_answer_by_callback(entrypoint: str, event: Any, expected: Any) -> None:
    answer = call_once(entrypoint, event)
    assert answer.status == 200
    assert (answer.body if isinstance(expected, bytes) else answer.json()) == expected


@pytest.mark.parametrize(("entrypoint", "message"), [("aws.callback", "by callback"), ("aws.done", "by done"), ("aws.succeed", "by fail")])
def test_a_handler_may_fail_by_callback(entrypoint: str, message: str) -> None:
    answer = call_once(entrypoint, {"fail": True})
    assert answer.status == 500
    assert answer.json()["error"] == message
    assert answer.header("X-Sless-Function-Error") == "1"


def test_a_handler_that_does_not_call_back_ends_at_once() -> None:
    with running(NODE, "aws.no_callback") as process, process.connect() as other:
        other.send(request_bytes("POST", "/", [("Content-Type", "application/json")], b'{"later": 700}'))
        assert process.call_json({"later": 300}).text_body() == "late"
        assert other.read_answer().text_body() == "late"
        began = time.monotonic()
        assert process.call_json({}).status == 204
        assert time.monotonic() - began < 5, "the call ended only at its timeout"


FAILURES = [
    ("timer", "thrown in a timer", "Error"),
    ("rejection", "nobody caught this", "Error"),
    ("raise_empty", "TypeError", "TypeError"),
    ("subclass", "odd", "OddError"),
    ("thrown_text", "just text", "string"),
    ("thrown_null", "null", "object"),
    ("hostile", "Error", "Error"),
    ("deep", "Maximum call stack size exceeded", "RangeError"),
]


@pytest.fixture(scope="module")
def errors() -> Any:
    with running(NODE, "errors.fail") as process:
        yield process


@pytest.mark.parametrize(("kind", "message", "error_type"), FAILURES)
def test_a_failure_is_a_500_with_its_message_and_type(errors: RuntimeProcess, kind: str, message: str, error_type: str) -> None:
    answer = errors.call_json({"kind": kind}, [("X-Request-Id", "r-1")])
    assert answer.status == 500
    assert answer.json() == {"error": message, "type": error_type, "request_id": "r-1"}
    assert errors.health()["active"] == 0


def test_error_after_the_answer_is_logged_with_the_call(errors: RuntimeProcess) -> None:
    answer = errors.call_json({"kind": "after_answer"}, [("X-Sless-Invocation-Id", "i-late")])
    assert (answer.status, answer.body) == (200, b"answered")
    errors.wait_for_lines(lambda lines: any("thrown after the answer" in line["text"] for line in lines), "i-late")
    assert errors.call_json({"kind": "raise"}).status == 500


def test_unhandled_rejection_is_answered_although_the_user_listens_too(tmp_path: Path) -> None:
    source = """
process.on('unhandledRejection', (error) => console.log('seen', error.message));
exports.handle = () => { Promise.reject(new Error('nobody caught this')); return new Promise(() => {}); };
"""
    with running(NODE, "handler.handle", code_env(tmp_path, {"handler.js": source})) as process:
        answer = process.call_json({}, [("X-Sless-Invocation-Id", "i1")])
        assert (answer.status, answer.json()["error"]) == (500, "nobody caught this")
        process.wait_for_lines(lambda lines: any(line["text"] == "seen nobody caught this" for line in lines), "i1")


def test_traces_show_only_the_users_code(errors: RuntimeProcess) -> None:
    errors.call_json({"kind": "raise"}, [("X-Sless-Invocation-Id", "i-trace")])
    lines = errors.wait_for_lines(lambda found: len(found) >= 2, "i-trace")
    text = "\n".join(line["text"] for line in lines)
    assert "errors.js:" in text
    assert "nodejs20/lib" not in text


def test_exit_ends_the_process_and_loses_no_line() -> None:
    with running(NODE, "errors.fail") as process:
        with pytest.raises(ConnectionError):
            process.call_json({"kind": "exit"}, [("X-Sless-Invocation-Id", "i-exit")])
        assert process.finish() == 3
        assert [(line["id"], line["text"]) for line in map(json.loads, process.output)] == [("i-exit", "last words")]


LOGS = [
    ("child_sync", [("stdout", "sync"), ("stderr", "sync err"), ("stdout", "shell"), ("stdout", "file")]),
    ("child_piped", [("stdout", "piped too")]),
    ("child_fails", [("stdout", "out"), ("stdout", "3")]),
    ("raw_async", [("stdout", "text"), ("stderr", "bytes")]),
    ("raw_file", [("stdout", "whole")]),
    ("split_character", [("stdout", "ü")]),
    ("piped_stream", [("stdout", "piped")]),
    ("endless_line", [("stdout", "x" * 16384 + " …[cut]"), ("stdout", "after")]),
    ("long_unicode", [("stdout", "x" + "ü" * 8191 + " …[cut]")]),
    ("ended_stream", [("stdout", "the end"), ("stdout", "and on")]),
]


@pytest.fixture(scope="module")
def logs() -> Any:
    with running(NODE, "logs.write") as process:
        yield process


@pytest.mark.parametrize(("kind", "expected"), LOGS)
def test_output_becomes_lines_of_the_call(logs: RuntimeProcess, kind: str, expected: list[tuple[str, str]]) -> None:
    assert logs.call_json({"kind": kind}, [("X-Sless-Invocation-Id", f"i-{kind}")]).body == b"done"
    lines = logs.wait_for_lines(lambda found: len(found) >= len(expected), f"i-{kind}")
    assert [(line["stream"], line["text"]) for line in lines] == expected


@pytest.mark.parametrize(("kind", "expected"), [("warning", "Warning: careful"), ("worker", "from a worker")])
def test_output_without_a_known_call_is_logged(logs: RuntimeProcess, kind: str, expected: str) -> None:
    assert logs.call_json({"kind": kind}).body == b"done"
    logs.wait_for_lines(lambda found: any(expected in line["text"] for line in found))


def test_output_of_named_imports_belongs_to_the_call(tmp_path: Path) -> None:
    source = """
import { execFileSync, spawnSync } from 'node:child_process';
import { writeSync } from 'node:fs';
import { stdout } from 'node:process';

export const handle = () => {
  writeSync(1, 'by writeSync\\n');
  spawnSync('echo', ['by spawnSync'], { stdio: 'inherit' });
  execFileSync('echo', ['by execFileSync'], { stdio: 'inherit' });
  stdout.write('by stdout\\n');
};
"""
    with running(NODE, "handler.handle", code_env(tmp_path, {"handler.mjs": source})) as process:
        assert process.call_json({}, [("X-Sless-Invocation-Id", "i1")]).status == 204
        lines = process.wait_for_lines(lambda found: len(found) == 4, "i1")
        assert [line["text"] for line in lines] == ["by writeSync", "by spawnSync", "by execFileSync", "by stdout"]


def test_lines_of_interleaved_calls_belong_to_their_calls(tmp_path: Path) -> None:
    source = """
exports.handle = async (event) => {
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
    console.log(event.name, i);
  }
  return 'done';
};
"""
    with running(NODE, "handler.handle", code_env(tmp_path, {"handler.js": source})) as process:
        connections = [process.connect() for _ in range(10)]
        for number, connection in enumerate(connections):
            body = json.dumps({"name": f"n{number}"})
            connection.send(
                f"POST / HTTP/1.1\r\nHost: a\r\nX-Sless-Invocation-Id: i{number}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            )
        for connection in connections:
            assert connection.read_answer().body == b"done"
            connection.close()
        for number in range(10):
            lines = [line["text"] for line in process.log_lines() if line["id"] == f"i{number}"]
            assert lines == [f"n{number} {i}" for i in range(5)]


@pytest.fixture(scope="module")
def results() -> Any:
    with running(NODE, "results.form") as process:
        yield process


RICH = (
    '{"when": "2026-01-31T09:26:53.589Z", "raw": "/wA=", "view": "/wA=", "big": 12345678901234567890, "hole": [null, 1], '
    '"own": "by toJSON", "floats": [1.5, 2], "text": "boxed"}'
)
RESULTS = [
    ("rich", 200, RICH),
    ("separators", 200, '{"a": [1, 2], "b": "\\u00fc\\"\\n", "\\u043a\\u043b\\u044e\\u0447": {}}'),
    ("null", 204, ""),
    ("triple_is_json", 200, '["short", 418, {"X-T": "1"}]'),
    ("uint8array", 200, "\x01\x02"),
    ("array_buffer", 200, "\x01\x02"),
    ("shared", 200, '[{"n": 1}, {"n": 1}]'),
]


@pytest.mark.parametrize(("form", "status", "body"), RESULTS)
def test_a_result_is_sent_in_its_json_form(results: RuntimeProcess, form: str, status: int, body: str) -> None:
    answer = results.call_json({"form": form})
    assert (answer.status, answer.body.decode()) == (status, body)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("map", "$.m is a Map"),
        ("promise", "$.later is a Promise: await it"),
        ("invalid_date", "$.at is an invalid Date"),
        ("cycle", "$.self is a cycle: $ again"),
        ("deep_cycle", "$.a[0].back is a cycle: $ again"),
        ("too_deep", "is nested too deeply"),
    ],
)
def test_values_without_a_json_form_are_a_500(results: RuntimeProcess, form: str, message: str) -> None:
    answer = results.call_json({"form": form})
    assert answer.status == 500
    assert answer.json()["error"].endswith(message)
    assert answer.header("X-Sless-Fault") == "result_not_serializable"


def test_a_header_may_be_a_date_and_headers_an_object_of_fetch(results: RuntimeProcess) -> None:
    assert results.call_json({"form": "header_date"}).header("Last-Modified") == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert results.call_json({"form": "headers_object"}).header("X-A") == "1"


@pytest.fixture(scope="module")
def streams() -> Any:
    with running(NODE, "streams.stream") as process:
        yield process


@pytest.mark.parametrize(("kind", "body"), [("readable", b"readable"), ("web", b"web")])
def test_readables_and_web_streams_are_streamed(streams: RuntimeProcess, kind: str, body: bytes) -> None:
    answer = streams.call_json({"kind": kind})
    assert (answer.status, answer.body, answer.header("Content-Type")) == (200, body, "application/octet-stream")


def test_readable_that_fails_at_once(streams: RuntimeProcess) -> None:
    answer = streams.call_json({"kind": "readable_fails"})
    assert answer.status == 500
    assert answer.json()["error"] == "cannot be read"


def test_stream_that_fails_later_is_cut_off(streams: RuntimeProcess) -> None:
    answer = streams.call_json({"kind": "fails_later"}, [("X-Sless-Invocation-Id", "i-cut")])
    assert (answer.status, answer.chunks, answer.complete) == (200, [b"first"], False)
    streams.wait_for_lines(lambda lines: any("after the first" in line["text"] for line in lines), "i-cut")
    assert streams.health()["active"] == 0


@pytest.mark.parametrize("kind", ["generator", "readable"])
def test_stream_stops_when_the_caller_leaves(kind: str) -> None:
    with running(NODE, "streams.endless") as process:
        with process.connect() as connection:
            connection.send(f"GET /?kind={kind} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            assert connection.read_head()[0] == 200
            assert connection.read_chunk().startswith(b"x")
            assert process.health()["active"] == 1
        wait_until(lambda: process.call("GET", "/?kind=stopped").json() == {"stopped": 1}, "the stream to be stopped")
        assert process.health()["active"] == 0


def test_stream_that_waits_for_ever_frees_its_slot_when_the_caller_leaves(tmp_path: Path) -> None:
    source = "exports.handle = async function* (e) { yield 'a'; if (!e.end) await new Promise(() => {}); };"
    env = {**code_env(tmp_path, {"handler.js": source}), "SLESS_CONCURRENCY": "1"}
    with running(NODE, "handler.handle", env) as process:
        for _ in range(3):
            with process.connect() as connection:
                connection.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                connection.read_head()
                assert connection.read_chunk() == b"a"
        assert process.call("GET", "/?end=1").body == b"a"


def send_event(connection: Connection, event: Any, *headers: tuple[str, str]) -> None:
    connection.send(request_bytes("POST", "/", [("Content-Type", "application/json"), *headers], json.dumps(event).encode()))


def test_call_past_its_deadline_frees_its_slot_and_is_not_answered(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(NODE, "waits.pause", {"SLESS_CONCURRENCY": "1"}) as process, process.connect() as blocked, process.connect() as late:
        send_event(blocked, {"gate": str(gate), "name": "blocked"}, ("X-Sless-Timeout-Ms", "1500"))
        wait_until(lambda: process.health()["active"] == 1, "the first call to run")
        send_event(late, {"name": "late"}, ("X-Sless-Timeout-Ms", "100"))
        assert process.call_json({"name": "next"}).json() == {"name": "next"}
        assert process.health() == {"active": 1, "overdue": 1, "pid": process.process.pid}
        gate.touch()
        wait_until(lambda: process.health() == {"active": 0, "overdue": 0, "pid": process.process.pid}, "the blocked call to end")
        for connection in (blocked, late):
            with pytest.raises(ConnectionError):
                connection.read_answer()
        texts = [line["text"] for line in process.log_lines() if line["id"]]
        assert texts == ["started blocked", "started next", "finished next", "finished blocked"]


def test_deadlines_of_many_calls_pass_one_by_one(tmp_path: Path) -> None:
    with running(NODE, "waits.pause") as process:
        connections = [process.connect() for _ in range(3)]
        for number, connection in enumerate(connections):
            send_event(connection, {"gate": str(tmp_path / "never")}, ("X-Sless-Timeout-Ms", str(500 * (3 - number))))
        overdue = set()

        def all_overdue() -> bool:
            overdue.add(process.health()["overdue"])
            return max(overdue) == 3

        wait_until(all_overdue, "three overdue calls")
        for connection in connections:
            with pytest.raises(ConnectionError):
                connection.read_answer()
            connection.close()
        assert process.health()["active"] == 3


def test_call_whose_caller_leaves_the_queue_never_starts(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with running(NODE, "waits.pause", {"SLESS_CONCURRENCY": "1"}) as process, process.connect() as first:
        send_event(first, {"gate": str(gate), "name": "first"})
        wait_until(lambda: process.health()["active"] == 1, "the first call to run")
        with process.connect() as gone:
            send_event(gone, {"name": "gone"})
        process.health()  # a round trip: the process has noticed that the other connection closed
        gate.touch()
        assert first.read_answer().status == 200
        assert process.call_json({"name": "last"}).status == 200
        assert not any("gone" in line["text"] for line in process.log_lines())


def test_aborted_request_does_not_delay_the_drain() -> None:
    with running(NODE, "events.echo") as process:
        with process.connect() as connection:
            connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nonly a part")
            process.health()  # a round trip: the process has read the part
        process.health()  # and now the end
        process.process.send_signal(signal.SIGTERM)
        assert_ends_undelayed(process)


def test_slow_caller_holds_the_stream_back(tmp_path: Path) -> None:
    source = """
let sent = 0;
exports.handle = (event) => {
  if (event.kind === 'sent') return { sent, rss: process.memoryUsage().rss };
  return (function* endless() { for (;;) { sent += 1; yield Buffer.alloc(1024 * 1024); } })();
};
"""
    with running(NODE, "handler.handle", code_env(tmp_path, {"handler.js": source})) as process, process.connect() as connection:
        connection.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        connection.read_head()
        counts = [process.call("GET", "/?kind=sent").json()["sent"] for _ in range(50)]
        assert counts[-1] == counts[-10]
        assert counts[-1] < 8


JOB_ENDS: list[tuple[str, str, str]] = [
    ("exit", "process.stdout.write('bye'); process.exit(4);", "function exited with code 4"),
    ("exit-zero", "process.exit(0);", "function exited with code 0"),
    ("never settles", "return new Promise(() => {});", "the event loop has nothing left to wait for"),
    ("timer", "setTimeout(() => { throw new Error('from a timer'); }, 1); return new Promise(() => {});", "from a timer"),
    ("nan", "return NaN;", "not JSON serializable"),
]


@pytest.mark.parametrize(("source", "message"), [pytest.param(*end[1:], id=end[0]) for end in JOB_ENDS])
def test_a_failed_job_has_its_error_as_the_outcome(tmp_path: Path, source: str, message: str) -> None:
    outcome = job(tmp_path, f"exports.handle = () => {{ {source} }};")
    assert outcome.exit_code == 1
    assert outcome.outcome is not None
    assert outcome.outcome["ok"] is False
    assert outcome.outcome["status"] == 500
    assert message in outcome.outcome["error"]


def test_job_ends_although_timers_run(tmp_path: Path) -> None:
    outcome = job(tmp_path, "exports.handle = async (event, context) => { setInterval(() => {}, 1000); return [context.trigger, event]; };")
    assert outcome.exit_code == 0
    assert outcome.outcome is not None
    assert json.loads(outcome.outcome["result"]) == ["job", {"a": 1}]


def test_a_job_may_answer_by_callback_or_stream(tmp_path: Path) -> None:
    outcome = job(tmp_path, "exports.handle = (event, context, callback) => { setTimeout(callback, 1, null, 'late'); };")
    assert outcome.outcome is not None
    assert (outcome.outcome["result"], outcome.outcome["body"]) == ('"late"', "late")
    outcome = job(tmp_path, "exports.handle = (event, context, callback) => {};")
    assert outcome.outcome is not None and (outcome.outcome["ok"], outcome.outcome["status"]) == (True, 204)
    outcome = job(tmp_path, "exports.handle = async function* () { yield 'a'; yield 'b'; };")
    assert outcome.outcome is not None
    assert (outcome.outcome["result"], outcome.outcome["body"]) == ('"ab"', "ab")


def job(folder: Path, source: str) -> Outcome:
    return run_once(NODE, "handler.handle", {**code_env(folder, {"handler.js": source}), "SLESS_EVENT": '{"a": 1}'})


def test_idle_connections_do_not_delay_the_drain() -> None:
    process = start_process(NODE, "events.echo")
    wait_listening(process)
    with process.connect(), process.connect() as used:
        assert used.request("GET", "/").status == 200
        os.kill(process.process.pid, signal.SIGTERM)
        assert_ends_undelayed(process)


def assert_ends_undelayed(process: RuntimeProcess) -> None:
    """The process ends by itself, before the grace time of 10 s."""
    began_at = time.monotonic()
    assert process.finish() == 0
    assert time.monotonic() - began_at < 9


def test_caller_names_cannot_shadow_methods_or_prototypes(tmp_path: Path) -> None:
    source = """
exports.handle = (event, { http }) => [http.headers.get('X-A'), http.headers.get('get'), http.headers.missing ?? null,
  Object.keys(http.query), Object.getPrototypeOf(http.query) === Object.prototype];
"""
    with running(NODE, "handler.handle", code_env(tmp_path, {"handler.js": source})) as process:
        answer = process.call("GET", "/?__proto__=1&b=2", [("get", "shadow"), ("x-a", "1"), ("__proto__", "x")])
        assert answer.json() == ["1", "shadow", None, ["__proto__", "b"], True]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"SLESS_MODE": "jobs"}, "SLESS_MODE must be one of server, job, check"),
        ({"SLESS_CODE_DIR": "/no/such/folder"}, "SLESS_CODE_DIR must be a folder"),
        ({"SLESS_CONCURRENCY": "many"}, "SLESS_CONCURRENCY must be an integer"),
        ({"SLESS_SOCKET": "/tmp/" + "x" * 100}, "SLESS_SOCKET is longer than 100 bytes"),
        ({"SLESS_SOCKET": "/no/such/folder/s"}, "cannot listen on /no/such/folder/s"),
        ({"SLESS_LIFELINE_FD": "77"}, "SLESS_LIFELINE_FD 77 cannot be read"),
        ({"SLESS_MODE": "job", "SLESS_EVENT_FILE": "/no/such/event"}, "SLESS_EVENT_FILE cannot be read"),
    ],
)
def test_a_wrong_environment_is_exit_code_2(env: dict[str, str], message: str) -> None:
    process = start_process(NODE, "events.echo", env)
    assert process.finish() == 2
    assert message in "\n".join(process.errors)
