"""Calls through the proxy that the table cannot express: time, size, concurrency, aborted calls."""

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sless.domain.model import CallStatus, Invocation
from tests.conformance.cases import BINARY, JSON_TYPE, THROUGH, Way
from tests.conformance.harness import RUNTIMES, Answer, Connection, require_runtime, running, wait_until
from tests.conformance.proxied import FnPath, Fronts
from tests.proxykit.fakes import NAMESPACE
from tests.proxykit.server import until

pytestmark = pytest.mark.timeout(300)  # the first program compiles Go's standard library
FIRST_BYTE_SEC = 15.0
"""Long enough for a busy machine; an answer that is held back never arrives, because the gate is closed."""


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    require_runtime(name)
    return name


@pytest.fixture(scope="module")
def fronts() -> Iterator[Fronts]:
    with contextlib.ExitStack() as stack:
        yield Fronts(stack)


@pytest.fixture(params=THROUGH)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def call(fn: FnPath, body: bytes = b"{}", *headers: tuple[str, str], method: str = "POST", target: str = "/") -> Answer:
    with fn.connect() as connection:
        connection.send(fn.request(method, target, [JSON_TYPE, *headers], body))
        return connection.read_answer(head_only=method == "HEAD")


def gated(gate: Path, name: str = "") -> bytes:
    return f'{{"gate": "{gate}", "name": "{name}"}}'.encode()


def record_of(fn: FnPath, count: int = 1) -> Invocation:
    """Waits until the function has `count` records and returns the newest."""
    found: list[Invocation] = []

    def found_all() -> bool:
        found[:] = [record for record in fn.front.flush().invocations if record.name == fn.name]
        return len(found) >= count

    until(found_all)
    return found[-1]


@pytest.mark.parametrize("handler", ["waits.gated", "waits.gated_async", "waits.sse"])
def test_first_byte_is_not_held_back(fronts: Fronts, runtime: str, way: Way, handler: str, gate: Path) -> None:
    first, second = (b"data: first\n\n", b"data: second\n\n") if handler == "waits.sse" else (b"first", b"second")
    with running(runtime, handler) as process:
        fn = fronts.path_to(way, process)
        for number in range(2):  # the second call uses an existing connection to the instance
            gate.unlink(missing_ok=True)
            with fn.connect() as connection:
                began = time.monotonic()
                connection.send(fn.request("POST", "/", [JSON_TYPE], gated(gate)))
                status, headers = connection.read_head()
                assert status == 200
                assert connection.read_chunk() == first
                assert time.monotonic() - began < FIRST_BYTE_SEC
                gate.touch()
                assert connection.read_chunk() == second
                assert connection.read_chunk() == b""
            if handler == "waits.sse":
                assert ("content-type", "text/event-stream") in headers
            assert record_of(fn, number + 1).response_bytes == len(first + second)


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_twenty_megabytes_pass_in_both_directions(fronts: Fronts, runtime: str, chunked: bool) -> None:
    body = os.urandom(1024) * (20 * 1024)
    with running(runtime, "waits.mirror") as process:
        fn = fronts.path_to(Way.PROXIED, process)
        sent = body
        headers = [("Content-Type", BINARY)]
        if chunked:
            pieces = [body[start : start + 999_983] for start in range(0, len(body), 999_983)]
            sent = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
            headers.append(("Transfer-Encoding", "chunked"))
        with fn.connect() as connection:
            connection.send(fn.request("POST", "/", headers, sent))
            answer = connection.read_answer()
        assert answer.status == 200
        assert answer.body == body
        invocation = record_of(fn)
        assert (invocation.request_bytes, invocation.response_bytes) == (len(body), len(body))


def test_one_connection_serves_calls_of_every_kind(fronts: Fronts, runtime: str, way: Way) -> None:
    with running(runtime, "results.form") as process:
        fn = fronts.path_to(way, process)
        with fn.connect() as connection:
            connection.send(
                fn.request("HEAD", "/?form=text", [], None)
                + fn.request("POST", "/", [JSON_TYPE, ("Transfer-Encoding", "chunked")], b'10\r\n{"form": "number\r\n2\r\n"}\r\n0\r\n\r\n')
                + fn.request("GET", "/?form=nothing", [], None)
                + fn.request("GET", "/?form=binary", [], None)
            )
            head = connection.read_answer(head_only=True)
            assert (head.status, head.header("Content-Length")) == (200, "7")
            assert connection.read_answer().json() == 42
            assert connection.read_answer().status == 204
            assert connection.read_answer().body == bytes(range(256))


def test_log_lines_reach_the_history_with_their_call(fronts: Fronts, runtime: str, way: Way, gate: Path) -> None:
    with running(runtime, "waits.pause") as process:
        fn = fronts.path_to(way, process)
        answers: dict[str, Answer] = {}

        def call_as(name: str) -> None:
            answers[name] = call(fn, gated(gate, name), ("X-Request-Id", f"{fn.name}-{name}"))

        threads = [threading.Thread(target=call_as, args=(str(number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        wait_until(lambda: process.health()["active"] == 8, "8 active calls")
        gate.touch()
        for thread in threads:
            thread.join(60)
        assert {answer.status for answer in answers.values()} == {200}
        record_of(fn, 8)
        workload_id = f"w-{fn.name}"
        until(lambda: sum(line.text.startswith("finished") for line in fn.front.flush().lines if line.workload_id == workload_id) == 8)
        lines = fn.front.fakes.history.lines
        for invocation in fn.front.fakes.history.invocations:
            if invocation.name == fn.name:
                name = invocation.request_id.removeprefix(f"{fn.name}-")
                assert [line.text for line in lines if line.invocation_id == invocation.id] == [f"started {name}", f"finished {name}"]


def test_five_megabytes_of_output_are_cut_and_do_not_affect_others(fronts: Fronts, runtime: str, way: Way) -> None:
    with running(runtime, "logs.flood") as process:
        fn = fronts.path_to(way, process)
        assert call(fn, b'{"count": 50000}', ("X-Request-Id", f"{fn.name}-flood")).text_body() == "done"
        assert call(fn, b'{"count": 1}').text_body() == "done"
        record_of(fn, 2)
        [flood, other] = [record for record in fn.front.fakes.history.invocations if record.name == fn.name]
        until(lambda: any(line.invocation_id == other.id for line in fn.front.flush().lines))
        texts = [line.text for line in fn.front.fakes.history.lines if line.invocation_id == flood.id]
        assert texts[0] == f"{0:0100}"
        assert texts[-1] == "[log over 256 KB: the rest of this call is dropped]"
        assert sum(len(text) + 1 for text in texts[:-1]) <= 256 * 1024


def test_failing_stream_is_aborted_for_the_caller(fronts: Fronts, runtime: str, way: Way) -> None:
    with running(runtime, "streams.stream") as process:
        fn = fronts.path_to(way, process)
        answer = call(fn, b'{"kind": "fails_later"}')
        assert (answer.status, answer.body, answer.complete) == (200, b"first", False)
        assert record_of(fn).status is CallStatus.FAILED
        assert call(fn, b'{"kind": "text"}').body == b"one two three"


def test_process_that_ends_itself_is_a_502(fronts: Fronts, runtime: str, way: Way) -> None:
    with running(runtime, "waits.die") as process:
        fn = fronts.path_to(way, process)
        answer = call(fn, b'{"code": 3}')
        assert answer.status == 502
        error: Any = answer.header("X-Sless-Error")
        assert re.fullmatch(r"[a-z_]+", error), answer
        assert answer.header("X-Request-Id") == record_of(fn).request_id
        assert process.finish() == 3


def test_call_on_a_draining_instance_is_answered(fronts: Fronts, runtime: str, way: Way, gate: Path) -> None:
    with running(runtime, "waits.pause") as process:
        fn = fronts.path_to(way, process)
        gate.touch()
        assert call(fn, gated(gate, "a")).status == 200  # leaves a connection to the instance: the fast path needs one
        gate.unlink()
        with fn.connect() as connection:
            connection.send(fn.request("POST", "/", [JSON_TYPE], gated(gate, "last")))
            wait_until(lambda: process.health()["active"] == 1, "an active call")
            process.process.send_signal(signal.SIGTERM)
            wait_until(lambda: is_refused(process.address), "the socket to be closed")
            gate.touch()
            answer = connection.read_answer()
        assert (answer.status, answer.json()) == (200, {"name": "last"})
        assert answer.header("Connection") in (None, "keep-alive")  # the caller's connection to sless stays open
        assert record_of(fn, 2).status is CallStatus.SUCCEEDED
        assert process.finish() == 0


def is_refused(address: str) -> bool:
    try:
        Connection(address).close()
    except OSError:
        return True
    return False


def test_caller_that_leaves_cancels_its_call(fronts: Fronts, runtime: str, way: Way, gate: Path) -> None:
    with running(runtime, "waits.gated_async") as process:
        fn = fronts.path_to(way, process)
        with fn.connect() as connection:
            connection.send(fn.request("POST", "/", [JSON_TYPE], gated(gate)))
            assert connection.read_head()[0] == 200
            assert connection.read_chunk() == b"first"
        assert record_of(fn).status is CallStatus.CANCELLED
        if runtime == "nodejs20":  # JavaScript cannot interrupt an await
            gate.touch()
        process.wait_for_lines(lambda lines: any(line["text"] == "closed" for line in lines))


def test_call_over_its_time_is_a_504_and_does_not_affect_others(fronts: Fronts, runtime: str, way: Way, gate: Path) -> None:
    with running(runtime, "waits.pause") as process:
        fn = fronts.path_to(way, process, timeout_sec=1)
        gate.touch()
        assert call(fn, gated(gate, "a")).status == 200  # leaves a connection to the instance: the fast path needs one
        gate.unlink()
        began = time.monotonic()
        answer = call(fn, gated(gate))
        assert time.monotonic() - began >= 1
        assert (answer.status, answer.header("X-Sless-Error")) == (504, "timeout")
        assert record_of(fn, 2).status is CallStatus.TIMEOUT
        gate.touch()
        assert call(fn, gated(gate, "b")).json() == {"name": "b"}


# Only Python has an event loop beside the thread that answers health checks.
@pytest.mark.parametrize("runtime", ["python3.11"], indirect=True)
def test_no_call_goes_to_an_instance_with_a_blocked_event_loop(fronts: Fronts, runtime: str, way: Way, gate: Path) -> None:
    with running(runtime, "waits.hold_loop") as process:
        fn = fronts.path_to(way, process, timeout_sec=1)
        assert call(fn, b'{"name": "a"}').json() == {"name": "a"}  # leaves a connection to the instance: the fast path needs one
        assert call(fn, gated(gate)).status == 504
        with fn.connect() as connection:
            connection.send(fn.request("POST", "/", [JSON_TYPE], b'{"name": "b"}'))
            live = fn.front.plane.routes.find(NAMESPACE, fn.name)
            wait_until(lambda: live is not None and live.waiting == 1, "the call to wait")
            gate.touch()
            assert connection.read_answer().json() == {"name": "b"}
