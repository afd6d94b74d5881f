"""Handlers that misbehave during a call: the caller gets an error that says so, and the next call succeeds."""

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tests.services.product import Tenant, wait_until

PYTHON = """\
import json, os, socket, sys, threading, time

def sockets():
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                yield int(name)
        except OSError:
            pass

def never():
    while True:
        time.sleep(60)

def spin():
    while True:
        pass

def cycle():
    value = []
    value.append(value)
    return value

def eat():
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)))
        time.sleep(0.005)

def cut(how):
    for number in list(sockets()):
        how(number)
    time.sleep(5)

def shut(number):
    other = socket.socket(fileno=os.dup(number))
    try:
        other.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    other.close()

def stream():
    yield "begun"
    os._exit(4)

DO = {
    "exit": lambda: sys.exit(3),
    "exit text": lambda: sys.exit("bye"),
    "real exit": lambda: os._exit(5),
    "abort": lambda: os.abort(),
    "raise": lambda: 1 / 0,
    "recurse": lambda: DO["recurse"](),
    "print": lambda: print("y" * 5_000_000) or print("done") or "printed",
    "lines": lambda: [print("line", number) for number in range(50_000)] and "printed",
    "set": lambda: {1, 2},
    "nan": lambda: float("nan"),
    "cycle": cycle,
    "object": lambda: {"deep": [object()]},
    "bad status": lambda: {"statusCode": 99},
    "bad header": lambda: {"statusCode": 200, "headers": {"a b": "c"}},
    "split header": lambda: {"statusCode": 200, "headers": {"x": "a\\r\\nset-cookie: b"}},
    "bad base64": lambda: {"statusCode": 200, "body": "%", "isBase64Encoded": True},
    "never": never,
    "spin": spin,
    "eat": eat,
    "shut": lambda: cut(shut),
    "close": lambda: cut(os.close),
    "stream": stream,
}

def handle(event):
    return DO[event]() if event in DO else {"pid": os.getpid(), "ok": event}
"""
NODE = """\
const fs = require('fs');
function eat(kept) { for (;;) kept.push(Buffer.alloc(1 << 20, 1)); }
const DO = {
  exit: () => process.exit(3),
  abort: () => process.abort(),
  raise: () => { throw new TypeError('no'); },
  reject: () => Promise.reject(new Error('rejected')),
  later: () => new Promise(() => setTimeout(() => { throw new Error('later'); }, 10)),
  never: () => new Promise(() => {}),
  spin: () => { for (;;); },
  symbol: () => ({ deep: [Symbol("s")] }),
  cycle: () => { const a = {}; a.a = a; return a; },
  eat: () => eat([]),
  print: () => { console.log('y'.repeat(5000000)); return 'printed'; },
};
exports.handle = (event) => (DO[event] ? DO[event]() : { ok: event });
"""


@pytest.fixture(scope="module")
def shared(product) -> Tenant:
    """One tenant for the whole file: damage to an instance must not affect the next call."""
    return product.tenant("handlers")


@pytest.fixture(scope="module")
def python(shared: Tenant) -> str:
    return shared.deploy("python", PYTHON)


@pytest.fixture(scope="module")
def short(shared: Tenant) -> str:
    return shared.deploy("short", PYTHON, timeout_sec=1)


@pytest.fixture(scope="module")
def once(shared: Tenant) -> str:
    """A function without instances: one run per call."""
    shared.deploy("once", PYTHON, http=False, timeout_sec=5)
    return "functions/once/invoke"


@pytest.fixture(scope="module")
def node(shared: Tenant, node_binary: str) -> str:
    return shared.deploy("node", {"handler.js": NODE}, runtime="nodejs20", timeout_sec=3)


def serves(tenant: Tenant, path: str) -> bool:
    answer = tenant.post(path, "again")
    return answer.status_code == 200 and answer.json()["ok"] == "again"


def check_next_call(tenant: Tenant, path: str) -> None:
    """It succeeds, though it may wait until the instance has been replaced."""
    answer = tenant.post(path, "again")
    assert answer.status_code == 200, answer.text
    assert answer.json()["ok"] == "again"


FAILURES: list[tuple[str, int, str]] = [
    ("exit", 500, r"function exited with code 3"),
    ("exit text", 500, r"function exited with code 1"),
    ("raise", 500, r"division by zero"),
    ("recurse", 500, r"recursion"),
    ("set", 500, r"set"),
    ("nan", 500, r"[Nn]a[Nn]"),
    ("cycle", 500, r"[Cc]ycle|circular|itself"),
    ("object", 500, r"deep.*object"),
    ("bad status", 502, r"99"),
    ("bad header", 502, r"a b"),
    ("split header", 502, r"x"),
    ("bad base64", 502, r"base64"),
]


@pytest.mark.parametrize(("event", "status", "text"), FAILURES)
def test_a_failing_python_handler_reports_the_error_and_stays(shared: Tenant, python: str, event: str, status: int, text: str) -> None:
    before = shared.post(python, "again").json()["pid"]
    answer = shared.post(python, event)
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert re.search(text, body["error"]), body
    assert body["request_id"] == answer.headers["X-Request-Id"]
    assert "Traceback" not in answer.text and "handler.py" not in answer.text
    assert shared.post(python, "again").json()["pid"] == before, "the same instance serves"


BREAKS = {
    "real exit": "function exited with code 5",
    "abort": "SIGABRT",
    "shut": "broke off|exited",
    "close": "broke off|exited",
}


@pytest.mark.parametrize(("event", "text"), BREAKS.items())
def test_an_instance_that_breaks_off_is_502(shared: Tenant, python: str, event: str, text: str) -> None:
    answer = shared.post(python, event)
    assert answer.status_code == 502, answer.text
    assert re.search(text, answer.json()["error"]), answer.text
    assert answer.headers["X-Sless-Error"] in ("function_exited", "function_broke_off")
    if event == "close":
        # The kernel still accepts one connection on a listening socket that is closed during poll(), then resets it.
        wait_until(lambda: serves(shared, python), "serves again")
        wait_until(
            lambda: "the function closed the listening socket" in shared.get("functions/python/logs").text,
            "the log says why it was replaced",
        )
    else:
        check_next_call(shared, python)


def test_a_truncated_response_is_an_error_for_the_caller(shared: Tenant, python: str) -> None:
    with pytest.raises(requests.exceptions.RequestException):
        shared.post(python, "stream")
    check_next_call(shared, python)


@pytest.mark.parametrize("event", ["never", "spin"])
def test_a_python_handler_that_never_returns_is_a_504(shared: Tenant, short: str, event: str) -> None:
    began = time.monotonic()
    answer = shared.post(short, event)
    assert (answer.status_code, answer.headers["X-Sless-Error"]) == (504, "timeout")
    assert "1 s" in answer.json()["error"] and "short" in answer.json()["error"]
    assert time.monotonic() - began >= 1
    wait_until(lambda: serves(shared, short), "serves again")
    wait_until(lambda: shared.invocation("short", answer.headers["X-Request-Id"]).get("status") == "timeout", "recorded as timed out")


def test_a_function_recovers_from_many_calls_that_never_return(shared: Tenant) -> None:
    path = shared.deploy("few", PYTHON, timeout_sec=1, concurrency=4)
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(shared.post(path, "never").status_code)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(answers) <= {504, 503} and len(answers) == 8
    wait_until(lambda: serves(shared, path), "serves again")


def test_a_handler_over_its_memory_limit_is_a_502(shared: Tenant) -> None:
    path = shared.deploy("eater", PYTHON, memory_mb=64, timeout_sec=30)
    answer = shared.post(path, "eat")
    assert (answer.status_code, answer.headers["X-Sless-Error"]) == (502, "out_of_memory")
    assert re.search(r"out of memory: used \d+ of 64 MB", answer.json()["error"])
    check_next_call(shared, path)


@pytest.mark.parametrize("event", ["print", "lines"])
def test_five_megabytes_of_output_are_cut_in_the_log(shared: Tenant, event: str) -> None:
    name = f"talks-{event}"
    path = shared.deploy(name, PYTHON)
    answer = shared.post(path, event)
    assert (answer.status_code, answer.text) == (200, "printed")
    request_id = answer.headers["X-Request-Id"]

    def size_bytes() -> int:
        return sum(len(line["text"].encode()) for line in shared.invocation(name, request_id).get("logs", ()))

    wait_until(lambda: size_bytes() > 1000, "the output is in the log")
    assert size_bytes() < 300 * 1024, "kept within the limit of a call"
    if event == "print":
        assert "cut" in json.dumps(shared.invocation(name, request_id)), "the long line is marked as cut"
    check_next_call(shared, path)


ONE_OFF_RESULTS: list[tuple[str, int, str]] = [
    ("exit", 500, "function exited with code 3"),
    ("real exit", 502, "function exited with code 5"),
    ("raise", 500, "division by zero"),
    ("object", 500, "object"),
    ("never", 504, "5 s"),
    ("print", 200, "printed"),
]


@pytest.mark.parametrize(("event", "status", "text"), ONE_OFF_RESULTS)
def test_a_one_off_run_reports_its_error_or_result(shared: Tenant, once: str, event: str, status: int, text: str) -> None:
    answer = shared.post(once, event)
    assert answer.status_code == status, answer.text
    assert text in answer.text
    assert "Traceback" not in answer.text


def test_a_one_off_run_over_its_memory_limit_is_a_502(shared: Tenant) -> None:
    shared.deploy("eater-once", PYTHON, http=False, memory_mb=64, timeout_sec=30)
    answer = shared.post("functions/eater-once/invoke", "eat")
    assert (answer.status_code, answer.headers["X-Sless-Error"]) == (502, "out_of_memory")


JOBS: list[tuple[str, str, Callable[[dict[str, Any]], bool]]] = [
    ("exit", "exited with code 3", lambda job: job["exit_code"] != 0),
    ("real exit", "exited with code 5", lambda job: job["exit_code"] == 5),
    ("raise", "division by zero", lambda job: "ZeroDivisionError" in job["message"]),
    ("object", "object", lambda job: True),
    ("never", "timed out after 1 s", lambda job: True),
    ("eat", "out of memory", lambda job: True),
]


@pytest.mark.parametrize(("event", "text", "check"), JOBS)
def test_failing_jobs_report_the_reason(shared: Tenant, event: str, text: str, check: Callable[[dict[str, Any]], bool]) -> None:
    name = f"job-{event.replace(' ', '-')}"
    limit_sec = 1 if event == "never" else 30
    shared.create(name, "job", timeout_sec=limit_sec, memory_mb=64, event_json=json.dumps(event), run_id=1)
    assert shared.upload(name, PYTHON, "job").status_code == 202
    job = shared.ended_job(name)
    assert job["phase"] == "Failed"
    assert text in job["message"], job
    assert check(job), job


NODE_FAILURES: list[tuple[str, int, str]] = [
    ("exit", 502, "exited with code 3"),
    ("abort", 502, "SIGABRT|134|exited"),
    ("raise", 500, "no"),
    ("reject", 500, "rejected"),
    ("never", 504, "3 s"),
    ("spin", 504, "3 s"),
    ("symbol", 500, "symbol"),
    ("cycle", 500, "[Cc]ycl|[Cc]ircular|itself"),
    ("print", 200, "printed"),
]


@pytest.mark.parametrize(("event", "status", "text"), NODE_FAILURES)
def test_a_failing_node_handler_reports_the_error(shared: Tenant, node: str, event: str, status: int, text: str) -> None:
    answer = shared.post(node, event)
    assert answer.status_code == status, answer.text
    assert re.search(text, answer.text), answer.text
    # Also after `spin`: the call waits for the new instance.
    check_next_call(shared, node)


def test_a_stopped_instance_costs_one_timeout(tenant: Tenant) -> None:
    path = tenant.deploy("f", "import os\ndef handle(event):\n    return os.getpid()\n", timeout_sec=1)
    stopped = tenant.post(path).json()
    os.kill(stopped, signal.SIGSTOP)
    assert tenant.post(path).status_code == 504
    answer = tenant.post(path)
    assert (answer.status_code, answer.json() != stopped) == (200, True), answer.text


def test_an_error_in_a_node_timer_fails_only_its_call(shared: Tenant, node: str) -> None:
    answer = shared.post(node, "later")
    assert answer.status_code in (500, 502, 504)
    check_next_call(shared, node)


def test_a_node_handler_over_its_memory_limit_is_a_502(shared: Tenant, node_binary: str) -> None:
    path = shared.deploy("node-eater", {"handler.js": NODE}, runtime="nodejs20", memory_mb=64, timeout_sec=30)
    answer = shared.post(path, "eat")
    assert (answer.status_code, answer.headers["X-Sless-Error"]) == (502, "out_of_memory")
    check_next_call(shared, path)


def test_a_run_ends_when_its_caller_leaves(shared: Tenant, once: str) -> None:
    with contextlib.suppress(requests.exceptions.ReadTimeout):
        requests.post(
            f"{shared.product.url}/v1/namespaces/{shared.namespace}/{once}", json="never", timeout=1,
            headers={"Authorization": f"Bearer {shared.token}", "X-Request-Id": "left-early"},
        )  # fmt: skip
    wait_until(lambda: shared.invocation("once", "left-early").get("status") == "cancelled", "the call is cancelled")
