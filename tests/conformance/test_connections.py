"""Tests that need time or several connections: keep-alive, slots, deadlines, streams, callers that leave."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.harness import (
    RUNTIMES,
    Answer,
    Connection,
    RuntimeProcess,
    request_bytes,
    require_runtime,
    running,
    start_process,
    wait_until,
)
from tests.conformance.harness import wait_listening as wait_for_listening

pytestmark = pytest.mark.timeout(300)  # the first program compiles Go's standard library
PYTHON_ONLY = pytest.mark.parametrize("runtime", ["python3.11"], indirect=True)
JSON_TYPE = ("Content-Type", "application/json")
SHORT_MS = "1000"
"""A timeout that the call must outlast, though it starts within it on a loaded machine."""


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    require_runtime(name)
    return name


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def json_request(body: str, *headers: tuple[str, str]) -> bytes:
    return request_bytes("POST", "/", [JSON_TYPE, *headers], body.encode())


class Background:
    """A call whose answer is read later."""

    def __init__(self, process: RuntimeProcess, event: Any, headers: list[tuple[str, str]] | None = None) -> None:
        self.answer: Answer | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._call, args=(process, event, headers))
        self._thread.start()

    def _call(self, process: RuntimeProcess, event: Any, headers: list[tuple[str, str]] | None) -> None:
        try:
            self.answer = process.call_json(event, headers)
        except (OSError, AssertionError) as error:
            self.error = error

    def result(self) -> Answer:
        self._thread.join(timeout=40)
        assert self.answer is not None, self.error
        return self.answer


def wait_active(process: RuntimeProcess, count: int) -> None:
    wait_until(lambda: process.health()["active"] == count, f"{count} active calls", detail=lambda: str(process.health()))


def wait_text(process: RuntimeProcess, text: str, invocation_id: str | None = None) -> list[dict[str, Any]]:
    return process.wait_for_lines(lambda lines: any(line["text"] == text for line in lines), invocation_id)


@pytest.fixture
def echo(runtime: str) -> Iterator[RuntimeProcess]:
    with running(runtime, "events.echo") as process:
        yield process


def test_a_connection_serves_several_calls(echo: RuntimeProcess) -> None:
    with echo.connect() as connection:
        for number in range(3):
            answer = connection.request("POST", "/", [JSON_TYPE], str(number).encode())
            assert answer.json() == {"event": number}
            assert answer.header("Connection") in (None, "keep-alive")


def test_connection_close_is_honoured(echo: RuntimeProcess) -> None:
    with echo.connect() as connection:
        answer = connection.request("POST", "/", [JSON_TYPE, ("Connection", "close")], b"1")
        assert answer.header("Connection") == "close"
        with pytest.raises(ConnectionError):
            connection.read_exactly(1)


def test_pipelined_requests_are_answered_in_order(echo: RuntimeProcess) -> None:
    with echo.connect() as connection:
        connection.send(b"".join(json_request(str(number)) for number in range(20)))
        assert [connection.read_answer().json()["event"] for _ in range(20)] == list(range(20))


def test_a_request_may_arrive_byte_by_byte(echo: RuntimeProcess) -> None:
    with echo.connect() as connection:
        for byte in json_request("[1, 2]"):
            connection.send(bytes([byte]))
        assert connection.read_answer().json() == {"event": [1, 2]}


def test_head_then_get_on_one_connection(echo: RuntimeProcess) -> None:
    with echo.connect() as connection:
        assert connection.request("HEAD", "/?a=1").body == b""
        assert connection.request("GET", "/?a=1").json() == {"event": {"a": "1"}}


def test_expect_continue_is_answered_before_the_body(echo: RuntimeProcess) -> None:
    with echo.connect() as connection:
        head, _, body = request_bytes("POST", "/", [JSON_TYPE, ("Expect", "100-continue")], b"41").partition(b"\r\n\r\n")
        connection.send(head + b"\r\n\r\n")
        assert connection.read_head() == (100, [])
        connection.send(body)
        assert connection.read_answer().json() == {"event": 41}


def test_a_body_of_20_mb_arrives_whole(runtime: str) -> None:
    body = os.urandom(1024) * (20 * 1024)
    with running(runtime, "waits.size") as process:
        answer = process.call("POST", "/", [("Content-Type", "application/octet-stream")], body)
        assert answer.json() == {"size": len(body), "sum": sum(body[:1000])}


@pytest.mark.parametrize("cut", [10, 60, -3])
def test_client_that_leaves_early_does_not_affect_others(echo: RuntimeProcess, cut: int) -> None:
    for _ in range(5):
        with echo.connect() as connection:
            connection.send(json_request('{"name": "somebody"}')[:cut])
    assert echo.call_json(1).json() == {"event": 1}
    assert echo.health()["active"] == 0


def test_one_slot_makes_calls_wait_but_not_control(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.pause", {"SLESS_CONCURRENCY": "1"}) as process:
        first = Background(process, {"gate": str(gate), "name": "a"})
        wait_active(process, 1)
        second = Background(process, {"gate": str(gate), "name": "b"})
        wait_text(process, "started a")
        assert process.health()["active"] == 1
        assert not any(line["text"] == "started b" for line in process.log_lines())
        gate.touch()
        assert first.result().json() == {"name": "a"}
        assert second.result().json() == {"name": "b"}
        texts = [line["text"] for line in process.log_lines() if line["id"]]
        assert texts == ["started a", "finished a", "started b", "finished b"]


def test_concurrent_calls_keep_their_log_lines_apart(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.pause") as process:
        calls = [Background(process, {"gate": str(gate), "name": str(n)}, [("X-Sless-Invocation-Id", f"i{n}")]) for n in range(8)]
        wait_active(process, 8)
        gate.touch()
        for call in calls:
            assert call.result().status == 200
        for number in range(8):
            lines = wait_text(process, f"finished {number}", f"i{number}")
            assert [line["text"] for line in lines] == [f"started {number}", f"finished {number}"]


@PYTHON_ONLY
def test_work_in_a_pool_belongs_to_the_call_that_submitted_it(runtime: str) -> None:
    with running(runtime, "logs.write") as process:
        for number in range(3):
            process.call_json({"kind": "pool"}, [("X-Sless-Invocation-Id", f"i{number}")])
        lines = process.wait_for_lines(lambda found: len(found) == 3)
        assert [line["id"] for line in lines] == ["i0", "i1", "i2"]


@PYTHON_ONLY
def test_blocking_calls_run_at_once(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.block") as process:
        calls = [Background(process, {"gate": str(gate), "name": str(n)}, [("X-Sless-Invocation-Id", f"i{n}")]) for n in range(8)]
        wait_active(process, 8)
        gate.touch()
        for number, call in enumerate(calls):
            assert call.result().status == 200
            lines = wait_text(process, f"finished {number}", f"i{number}")
            assert [line["text"] for line in lines] == [f"started {number}", f"finished {number}"]


@pytest.mark.parametrize("runtime", ["python3.11", "go1.23"], indirect=True)
def test_blocked_calls_do_not_delay_others(runtime: str, gate: Path) -> None:
    """Blocks all slots but one; later calls are answered meanwhile."""
    with running(runtime, "waits.block") as process:
        calls = [Background(process, {"gate": str(gate), "name": str(n)}) for n in range(49)]
        wait_active(process, 49)
        with process.connect() as connection:
            for number in range(50):
                answer = connection.request("POST", "/", [JSON_TYPE], f'{{"name": "quick {number}"}}'.encode())
                assert answer.json() == {"name": f"quick {number}"}
        assert process.health()["active"] == 49
        gate.touch()
        assert [call.result().json()["name"] for call in calls] == [str(n) for n in range(49)]


def test_pipelined_answers_stay_in_order_after_a_blocked_call(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.block" if runtime != "nodejs20" else "waits.pause") as process, process.connect() as connection:
        open_gate = gate.parent / "open"
        open_gate.touch()
        events = [f'{{"gate": "{gate}", "name": "slow"}}', *(f'{{"gate": "{open_gate}", "name": "{n}"}}' for n in range(3))]
        connection.send(b"".join(json_request(event) for event in events))
        wait_active(process, 1)
        assert process.call_json({"gate": str(open_gate), "name": "other"}).status == 200
        gate.touch()
        assert [connection.read_answer().json()["name"] for _ in range(4)] == ["slow", "0", "1", "2"]
        assert connection.request("POST", "/", [JSON_TYPE], events[1].encode()).json() == {"name": "0"}


@pytest.mark.parametrize("size", [2000, 1_000_000])
def test_slow_body_does_not_delay_others(runtime: str, size: int) -> None:
    with running(runtime, "waits.size") as process, process.connect() as slow:
        body = b"a" * size
        request = request_bytes("POST", "/", [("Content-Type", "text/plain")], body)
        slow.send(request[: -size // 2])
        for _ in range(3):
            assert process.call("POST", "/", [("Content-Type", "text/plain")], b"quick" * 200).json()["size"] == 1000
        slow.send(request[-size // 2 :])
        assert slow.read_answer().json()["size"] == size


def test_unread_answer_does_not_delay_others(runtime: str) -> None:
    body = bytes(20 * 1024 * 1024)
    with running(runtime, "waits.mirror") as process, process.connect() as slow:
        slow.send(request_bytes("POST", "/", [("Content-Type", "application/octet-stream")], body))
        assert slow.read_head()[0] == 200
        for _ in range(3):
            assert process.call("POST", "/", [("Content-Type", "application/octet-stream")], b"quick").body == b"quick"
        assert slow.read_exactly(len(body)) == body


@PYTHON_ONLY
def test_context_variables_do_not_leak_into_the_next_call(runtime: str) -> None:
    with running(runtime, "waits.remember") as process, process.connect() as connection:
        for _ in range(3):
            assert connection.request("POST", "/", [JSON_TYPE], b"{}").body == b"nothing"


@PYTHON_ONLY
def test_blocked_thread_counts_as_overdue_and_frees_its_slot(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.block", {"SLESS_CONCURRENCY": "1"}) as process:
        with process.connect() as blocked:
            blocked.send(json_request(f'{{"gate": "{gate}"}}', ("X-Sless-Timeout-Ms", SHORT_MS)))
            wait_active(process, 1)
            assert process.call_json({"name": "next"}).json() == {"name": "next"}
            assert process.health()["overdue"] == 1
            gate.touch()
            with pytest.raises(ConnectionError):
                blocked.read_answer()
        wait_active(process, 0)
        assert process.health()["overdue"] == 0


@PYTHON_ONLY
def test_call_whose_deadline_passes_in_the_queue_never_starts(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.block", {"SLESS_CONCURRENCY": "1"}) as process:
        first = Background(process, {"gate": str(gate), "name": "first"})
        wait_active(process, 1)
        with process.connect() as late:
            late.send(json_request('{"name": "late"}', ("X-Sless-Timeout-Ms", "100")))
            with pytest.raises(ConnectionError):
                late.read_answer()
        gate.touch()
        first.result()
        assert not any("late" in line["text"] for line in process.log_lines())


@PYTHON_ONLY
def test_deadline_cancels_a_coroutine(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.pause") as process:
        with process.connect() as connection:
            connection.send(json_request(f'{{"gate": "{gate}"}}', ("X-Sless-Timeout-Ms", SHORT_MS), ("X-Sless-Invocation-Id", "i1")))
            with pytest.raises(ConnectionError):
                connection.read_answer()
        wait_text(process, "cancelled", "i1")
        wait_active(process, 0)


@PYTHON_ONLY
def test_client_that_leaves_cancels_a_coroutine(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.pause") as process:
        with process.connect() as connection:
            connection.send(json_request(f'{{"gate": "{gate}"}}', ("X-Sless-Invocation-Id", "i1")))
            wait_text(process, "started ")
        wait_text(process, "cancelled", "i1")
        wait_active(process, 0)
        gate.touch()
        assert process.call_json({"gate": str(gate), "name": "z"}).json() == {"name": "z"}


@PYTHON_ONLY
def test_coroutine_that_refuses_to_be_cancelled_stays_active_until_it_ends(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.stubborn") as process:
        with process.connect() as connection:
            connection.send(json_request(f'{{"gate": "{gate}"}}', ("X-Sless-Timeout-Ms", SHORT_MS)))
            with pytest.raises(ConnectionError):
                connection.read_answer()
        wait_text(process, "no")
        assert process.health() == {"active": 1, "overdue": 1, "pid": process.process.pid}
        gate.touch()
        wait_active(process, 0)


@PYTHON_ONLY
def test_exit_in_a_background_task_ends_only_that_task(runtime: str) -> None:
    with running(runtime, "waits.after_exit_in_a_task") as process:
        assert process.call_json({}).text_body() == "still here"
        assert process.call_json({}).text_body() == "still here"


@pytest.mark.parametrize("handler", ["waits.gated", "waits.gated_async"])
def test_chunks_are_sent_at_once(runtime: str, handler: str, gate: Path) -> None:
    with running(runtime, handler) as process, process.connect() as connection:
        connection.send(json_request(f'{{"gate": "{gate}"}}'))
        assert connection.read_head()[0] == 200
        assert connection.read_chunk() == b"first"
        gate.touch()
        assert connection.read_chunk() == b"second"
        assert connection.read_chunk() == b""
        wait_text(process, "closed")


@pytest.mark.parametrize("handler", ["waits.gated", "waits.gated_async"])
def test_client_that_leaves_closes_a_stream(runtime: str, handler: str, gate: Path) -> None:
    with running(runtime, handler) as process:
        with process.connect() as connection:
            connection.send(json_request(f'{{"gate": "{gate}", "count": 1000, "times": 10000}}'))
            assert connection.read_head()[0] == 200
        if handler == "waits.gated" or runtime == "nodejs20":  # JavaScript cannot interrupt an await
            gate.touch()
        wait_text(process, "closed")
        wait_active(process, 0)


def test_stream_whose_caller_leaves_frees_its_slot(runtime: str, gate: Path, tmp_path: Path) -> None:
    """The handler waits for its gate, which stays closed."""
    handler = "waits.gated_async" if runtime == "nodejs20" else "waits.gated"  # a generator that blocks stops all of Node
    with running(runtime, handler, {"SLESS_CONCURRENCY": "1"}) as process:
        with process.connect() as connection:
            connection.send(json_request(f'{{"gate": "{gate}"}}', ("X-Sless-Timeout-Ms", "60000")))
            assert connection.read_head()[0] == 200
            assert connection.read_chunk() == b"first"
        (tmp_path / "open").touch()
        assert process.call_json({"gate": str(tmp_path / "open")}).text_body() == "firstsecond"
        gate.touch()
        wait_active(process, 0)


@PYTHON_ONLY
def test_blocked_event_loop_shows_in_the_health(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.hold_loop") as process, process.connect() as connection:
        connection.send(json_request(f'{{"gate": "{gate}"}}', ("X-Sless-Timeout-Ms", SHORT_MS)))
        wait_until(lambda: process.health().get("blocked") is True, "the loop to be blocked")
        gate.touch()
        wait_active(process, 0)
        assert "blocked" not in process.health()


@PYTHON_ONLY
def test_head_does_not_leave_a_stream_behind(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.gated_async") as process:
        assert process.call("HEAD", f"/?gate={gate}").body == b""
        wait_text(process, "closed")


@PYTHON_ONLY
def test_crash_of_the_interpreter_leaves_a_trace(runtime: str) -> None:
    with running(runtime, "waits.crash") as process:
        with process.connect() as connection:
            connection.send(json_request("{}"))
            with pytest.raises(ConnectionError):
                connection.read_answer()
        assert process.finish() == -signal.SIGSEGV
        assert any("Segmentation fault" in line for line in process.errors)


@PYTHON_ONLY
@pytest.mark.parametrize("kind", ["processes", "own_loop"])
def test_handlers_may_start_processes_and_event_loops(runtime: str, kind: str) -> None:
    with running(runtime, "waits.own_concurrency") as process:
        answer = process.call_json({"kind": kind}, [("X-Sless-Invocation-Id", "i1")])
        assert answer.json() == [0, 1, 4]
        lines = process.wait_for_lines(lambda found: len(found) == 3, "i1")
        assert sorted(line["text"] for line in lines) == ["square 0", "square 1", "square 2"]


@PYTHON_ONLY
def test_forked_child_ends_on_sigterm(runtime: str) -> None:
    with running(runtime, "waits.end_child") as process:
        assert process.call_json({}).json() == -signal.SIGTERM


@PYTHON_ONLY
def test_forked_child_has_its_own_signal_handlers(runtime: str) -> None:
    with running(runtime, "waits.signal_in_child") as process:
        assert process.call_json({}).json() == 0
        assert process.call_json({}).json() == 0


@PYTHON_ONLY
def test_iterator_is_closed_when_the_client_leaves(runtime: str) -> None:
    with running(runtime, "waits.endless") as process:
        with process.connect() as connection:
            connection.send(json_request("{}"))
            assert connection.read_head()[0] == 200
        wait_text(process, "closed")
        wait_active(process, 0)


@PYTHON_ONLY
def test_traceback_starts_in_the_users_code(runtime: str) -> None:
    with running(runtime, "errors.fail") as process:
        process.call_json({"kind": "raise"}, [("X-Sless-Invocation-Id", "i1")])
        lines = [line["text"] for line in wait_text(process, "RuntimeError: went wrong: 7", "i1")]
        assert lines[0] == "Traceback (most recent call last):"
        assert not any("sless_runtime" in line for line in lines)


def test_traceback_hides_the_path_of_the_code_folder(runtime: str) -> None:
    with running(runtime, "errors.fail") as process:
        process.call_json({"kind": "raise"}, [("X-Sless-Invocation-Id", "i1")])
        lines = process.wait_for_lines(lambda seen: any("errors." in line["text"] for line in seen))
        text = "\n".join(line["text"] for line in lines)
        assert "went wrong: 7" in text
        assert str(Path(__file__).parent) not in text


@PYTHON_ONLY
@pytest.mark.parametrize("handler", ["waits.ticks", "waits.ticks_async"])
def test_stream_may_take_longer_than_the_time_between_chunks(runtime: str, handler: str) -> None:
    with running(runtime, handler) as process:
        answer = process.call_json({}, [("X-Sless-Timeout-Ms", "1500")])
        assert (answer.body, answer.complete) == (b"0 1 2 3 ", True)


@PYTHON_ONLY
def test_forked_process_does_not_keep_the_connection_open(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.leave_child_behind") as process, process.connect() as connection:
        connection.send(json_request(f'{{"gate": "{gate}"}}', ("Connection", "close")))
        assert connection.read_answer().status == 200
        with pytest.raises(ConnectionError):
            connection.read_exactly(1)
        gate.touch()


@PYTHON_ONLY
@pytest.mark.parametrize("early", [1, 3])
def test_time_between_chunks_is_limited(runtime: str, gate: Path, early: int) -> None:
    with running(runtime, "waits.gated_async") as process, process.connect() as connection:
        connection.send(json_request(f'{{"gate": "{gate}", "early": {early}}}', ("X-Sless-Timeout-Ms", SHORT_MS)))
        assert connection.read_head()[0] == 200
        for _ in range(early):
            assert connection.read_chunk() == b"first"
        with pytest.raises(ConnectionError):
            connection.read_chunk()
        wait_text(process, "closed")


def test_failing_stream_is_aborted(runtime: str) -> None:
    with running(runtime, "streams.stream") as process:
        answer = process.call_json({"kind": "fails_later"}, [("X-Sless-Invocation-Id", "i1")])
        assert answer.chunks == [b"first"]
        assert not answer.complete
        process.wait_for_lines(lambda lines: any("after the first" in line["text"] for line in lines), "i1")
        wait_active(process, 0)


def test_stream_to_http_1_0_ends_with_the_connection(runtime: str) -> None:
    with running(runtime, "streams.stream") as process, process.connect() as connection:
        connection.send(b"GET /?kind=text HTTP/1.0\r\n\r\n")
        answer = connection.read_answer()
        assert answer.body == b"one two three"
        assert answer.header("Transfer-Encoding") is None


def test_a_process_that_ends_itself_sends_no_answer(runtime: str) -> None:
    with running(runtime, "waits.die") as process:
        with process.connect() as connection:
            connection.send(json_request('{"code": 7}'))
            with pytest.raises(ConnectionError):
                connection.read_answer()
        assert process.finish() == 7


def test_sigterm_finishes_running_calls(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.pause") as process:
        idle = process.connect()
        call = Background(process, {"gate": str(gate), "name": "last"})
        wait_active(process, 1)
        process.process.send_signal(signal.SIGTERM)
        assert idle.read_to_end() == b""
        idle.close()
        wait_until(lambda: is_refused(process), "the socket to be closed")
        gate.touch()
        answer = call.result()
        assert answer.json() == {"name": "last"}
        assert answer.header("Connection") == "close"
        assert process.finish() == 0
        assert any('"finished last"' in line for line in process.output)


def is_refused(process: RuntimeProcess) -> bool:
    try:
        Connection(process.address).close()
    except OSError:
        return True
    return False


@pytest.mark.slow
def test_sigterm_waits_at_most_ten_seconds(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.pause") as process:
        call = Background(process, {"gate": str(gate), "name": "endless"})
        wait_active(process, 1)
        began = time.monotonic()
        process.process.send_signal(signal.SIGTERM)
        assert process.finish() == 0
        assert 9 < time.monotonic() - began < 14
        with pytest.raises(AssertionError, match="closed the connection"):
            call.result()


def test_sigterm_waits_at_most_the_grace_time(runtime: str, gate: Path) -> None:
    with running(runtime, "waits.pause", {"SLESS_GRACE_SEC": "1"}) as process:
        Background(process, {"gate": str(gate), "name": "endless"})
        wait_active(process, 1)
        began = time.monotonic()
        process.process.send_signal(signal.SIGTERM)
        assert process.finish() == 0
        assert 0.9 < time.monotonic() - began < 6, "it waited for the default grace time of 10 s"


def test_sigterm_without_calls_leaves_at_once(echo: RuntimeProcess) -> None:
    with echo.connect() as connection:
        connection.request("GET", "/")
        echo.process.send_signal(signal.SIGTERM)
        assert echo.finish() == 0


def test_lifeline_ends_the_process_group(runtime: str) -> None:
    reading, writing = os.pipe()
    with running(runtime, "events.echo", {"SLESS_LIFELINE_FD": str(reading)}, pass_fds=(reading,)) as process:
        os.close(reading)
        assert process.call_json(1).status == 200
        os.close(writing)
        assert process.finish() == -signal.SIGKILL


def test_stale_socket_is_replaced(runtime: str) -> None:
    with running(runtime, "events.echo") as first:
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        again = start_process(runtime, "events.echo", folder=first.folder)
        try:
            wait_for_listening(again)
            assert again.call_json(1).status == 200
        finally:
            again.stop()


def test_a_runtime_may_listen_on_a_port(runtime: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = start_process(runtime, "events.show", {"SLESS_SOCKET": "", "SLESS_PORT": str(port)})
    try:
        wait_until(lambda: is_open(port), "the port to open")
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
        assert b'"client_ip": "127.0.0.1"' in answer.replace(b'":"', b'": "')
    finally:
        process.stop()


def test_tcp_on_a_given_address(runtime: str) -> None:
    address = "127.9.8.7"
    with socket.create_server((address, 0)) as probe:
        port = probe.getsockname()[1]
    environment = {"SLESS_SOCKET": "", "SLESS_PORT": str(port), "SLESS_ADDRESS": address}
    process = start_process(runtime, "events.echo", environment)
    try:
        wait_until(lambda: is_open(port, address), "the port to open")
        assert not is_open(port)
    finally:
        process.stop()


def is_open(port: int, address: str = "127.0.0.1") -> bool:
    try:
        with socket.create_connection((address, port)):
            return True
    except ConnectionRefusedError:
        return False
