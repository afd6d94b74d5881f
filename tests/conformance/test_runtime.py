"""Runs the table of `cases.py` against every runtime, directly and through the proxy."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import pytest

from tests.conformance.cases import CASES, UNSET, Case, Way
from tests.conformance.harness import RUNTIMES, Answer, RuntimeProcess, require_runtime, running, wait_until
from tests.conformance.proxied import TIMEOUT_SEC, Fronts, call_through, check_call

pytestmark = pytest.mark.timeout(300)  # the first program compiles Go's standard library
Start = Callable[..., RuntimeProcess]


@pytest.fixture(scope="module")
def started() -> Iterator[Start]:
    """Starts a runtime once per (runtime, handler, environment) and ends them all at the end of the module."""
    processes: dict[Any, RuntimeProcess] = {}
    with contextlib.ExitStack() as stack:

        def start(runtime: str, entrypoint: str, env: dict[str, str] | None = None) -> RuntimeProcess:
            require_runtime(runtime)
            key = (runtime, entrypoint, *sorted((env or {}).items()))
            if key not in processes:
                processes[key] = stack.enter_context(running(runtime, entrypoint, env))
            return processes[key]

        yield start


@pytest.fixture(scope="module")
def fronts() -> Iterator[Fronts]:
    with contextlib.ExitStack() as stack:
        yield Fronts(stack)


def case_parameters() -> list[Any]:
    return [
        pytest.param(runtime, way, case, id=f"{runtime}-{way}-{case.id}", marks=pytest.mark.xdist_group(f"conformance-{runtime}"))
        for case in CASES
        for way in case.ways
        for runtime in RUNTIMES
        if (not case.only or runtime in case.only) and is_included(way, runtime, case)
    ]


def is_included(way: Way, runtime: str, case: Case) -> bool:
    """The slow path treats all runtimes alike: each case takes it with one of them, with `make soak` all."""
    return way is not Way.SLOW or runtime == (case.only or RUNTIMES)[0] or "TEST_SOAK_MESSAGES" in os.environ


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_table_is_run_through_the_proxy(runtime: str) -> None:
    assert sum(Way.PROXIED in case.ways and (not case.only or runtime in case.only) for case in CASES) >= 100


@pytest.mark.parametrize(("runtime", "way", "case"), case_parameters())
def test_case(started: Start, fronts: Fronts, runtime: str, way: Way, case: Case) -> None:
    process = started(runtime, case.handler, case.env)
    if way is Way.DIRECT:
        invocation_id = f"inv-{case.id}"
        answer = send(process, case, invocation_id)
        assert answer.status == case.status, (answer, process.output[-30:])
        check_body(answer, case, case.has)
        check_error(answer, case)
    else:
        timeout_sec = 0 if case.env.get("SLESS_TIMEOUT_SEC") == "0" else TIMEOUT_SEC
        call = call_through(fronts.path_to(way, process, timeout_sec), case)
        answer, invocation_id = call.answer, call.invocation.id if call.invocation else ""
        assert answer.status == case.status, (answer, process.output[-30:])
        check_body(answer, case, call.expected_of(case))
        check_call(call, case)
    assert answer.complete
    check_headers(answer, case)
    check_logs(process, case, invocation_id)
    # The answer to HEAD is whole at its head, while the handler may still return.
    wait_until(lambda: process.health()["active"] == 0, "the end of the call")


def send(process: RuntimeProcess, case: Case, invocation_id: str) -> Answer:
    if case.raw is not None:
        with process.connect() as connection:
            connection.send(case.raw)
            return connection.read_answer()
    headers = case.request_headers()
    if not any(name == "X-Sless-Invocation-Id" for name, _ in headers):
        headers.append(("X-Sless-Invocation-Id", invocation_id))
    return process.call(case.method, case.target, headers, case.request_body())


def check_body(answer: Answer, case: Case, has: dict[str, Any]) -> None:
    if case.json is not UNSET:
        assert answer.json() == case.json
    if case.text is not None:
        assert answer.body.decode() == case.text
    if case.content is not None:
        assert answer.body == case.content
    for path, expected in has.items():
        found = answer.json()
        *parents, last = path.split(".")
        for key in parents:
            found = found[key]
        assert found.get(last, UNSET) == expected, path


def check_headers(answer: Answer, case: Case) -> None:
    for name, expected in case.headers_out.items():
        found = answer.header(name)
        if expected is str:
            assert found is not None, name
        elif isinstance(expected, tuple):
            assert tuple(answer.header_values(name)) == expected
        else:
            assert found == expected, name


def check_error(answer: Answer, case: Case) -> None:
    assert answer.header("X-Sless-Fault") == case.fault
    assert answer.header("X-Sless-Function-Error") == ("1" if case.function_error else None)
    if case.error is None:
        return
    message = answer.error_message
    assert message is not None
    assert len(answer.header("X-Sless-Error-Message") or "") <= 1024
    body = answer.json()
    assert re.search(case.error, body["error"]), body
    assert body["error"].startswith(message)
    assert body["request_id"]
    if case.function_error:
        assert set(body) == {"error", "type", "request_id"}
    else:
        assert (set(body), body["code"], body["details"]) == ({"error", "code", "details", "request_id"}, case.fault, [])


def check_logs(process: RuntimeProcess, case: Case, invocation_id: str) -> None:
    if case.logs is not None:
        expected = list(case.logs)
        lines = process.wait_for_lines(lambda found: len(found) >= len(expected), invocation_id)
        # In order within a stream: descriptors written past the runtime are two pipes, which may be read late.
        found = [(line["stream"], line["text"]) for line in lines]
        assert sorted(found, key=itemgetter(0)) == sorted(expected, key=itemgetter(0))
    for pattern in case.log_has:
        process.wait_for_lines(partial(has_line, pattern), invocation_id)


def has_line(pattern: str, lines: list[dict[str, Any]]) -> bool:
    return any(re.search(pattern, line["text"]) for line in lines)
