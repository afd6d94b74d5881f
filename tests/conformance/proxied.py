"""Calls a runtime through the real front door and proxy, which run in this process, and checks what the proxy changes."""

import contextlib
import re
from dataclasses import dataclass
from typing import Any

from sless.config import Settings
from sless.domain.model import CallStatus, CallTrigger, Invocation
from sless.domain.ports import Route
from tests.conformance.cases import Case, Way
from tests.conformance.harness import Answer, Connection, RuntimeProcess, request_bytes
from tests.proxykit.fakes import NAMESPACE, endpoint_of, revision_of, route_of
from tests.proxykit.server import Front, until

SETTINGS = Settings(instance_wait_sec=30)
VERSION = 7
TIMEOUT_SEC = 25
"""Differs from the runtimes' environment, because the value that the proxy sends with each call counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FnPath:
    """A function behind `/fn/{namespace}/{name}` of a front door."""

    front: Front
    name: str

    @property
    def path(self) -> str:
        return f"/fn/{NAMESPACE}/{self.name}"

    def connect(self) -> Connection:
        return Connection(("127.0.0.1", self.front.port))

    def request(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes | None) -> bytes:
        return request_bytes(method, self.path + target, headers, body)


class Fronts:
    """One front door per way, started on first use; every function gets its own name."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._fronts: dict[Way, Front] = {}
        self._routes: dict[Way, dict[str, Route]] = {}

    def path_to(self, way: Way, process: RuntimeProcess, timeout_sec: int = TIMEOUT_SEC) -> FnPath:
        """The path of the function that the process runs. `timeout_sec` 0: none."""
        if way not in self._fronts:
            self._fronts[way] = self._stack.enter_context(Front(settings=SETTINGS, fast_path=way is Way.PROXIED))
            self._routes[way] = {}
        front, routes = self._fronts[way], self._routes[way]
        if process.address not in routes:
            routes[process.address] = _route(f"conformance-{len(routes)}", process.address, timeout_sec)
            front.set_routes(*routes.values())
        return FnPath(front=front, name=routes[process.address].name)


def _route(name: str, address: str, timeout_sec: int) -> Route:
    endpoint = endpoint_of(f"unix:{address}", f"{name}-e", f"w-{name}", VERSION)
    return route_of(name, revision=revision_of(name, version=VERSION, timeout_sec=timeout_sec), endpoints=(endpoint,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedCall:
    """A finished call. `invocation` is its record, or None when the request was refused earlier."""

    fn: FnPath
    answer: Answer
    invocation: Invocation | None

    def expected_of(self, case: Case) -> dict[str, Any]:
        """`case.has` with the values expected through the proxy."""
        changed = {key: value.replace("{fn}", self.fn.path) for key, value in case.proxied_has.items()}
        return {**case.has, **changed}


def call_through(fn: FnPath, case: Case) -> ProxiedCall:
    """Sends the case's request to /fn and finds its record."""
    before = len(fn.front.flush().invocations)
    with fn.connect() as connection:
        if case.raw is not None:
            connection.send(case.raw.replace(b" /", f" {fn.path}/".encode(), 1))
        else:
            connection.send(fn.request(case.method, case.target, case.request_headers(), case.request_body()))
        answer = connection.read_answer(head_only=case.method == "HEAD")
    if case.raw is not None and case.status == 400:
        return ProxiedCall(fn=fn, answer=answer, invocation=None)
    until(lambda: len(fn.front.flush().invocations) > before)
    [invocation] = fn.front.fakes.history.invocations[before:]
    return ProxiedCall(fn=fn, answer=answer, invocation=invocation)


def check_call(call: ProxiedCall, case: Case) -> None:
    """Checks what the proxy adds to an answer, removes from it and records."""
    answer, invocation = call.answer, call.invocation
    own = [name for name, _ in answer.headers if name.lower().startswith("x-sless-")]
    expected = (["x-sless-function-error"] if case.function_error else []) + (
        ["x-sless-error"] if case.fault and case.status in (400, 502) else []
    )
    assert sorted(name.lower() for name in own) == sorted(expected)
    if expected == ["x-sless-error"]:
        assert answer.header("X-Sless-Error") == case.fault
    if invocation is None:
        return
    assert answer.header_values("X-Request-Id") == [invocation.request_id]
    assert invocation.request_id == dict(case.headers).get("X-Request-Id", invocation.id)
    assert (invocation.name, invocation.version, invocation.trigger) == (call.fn.name, VERSION, CallTrigger.HTTP)
    assert invocation.status is (CallStatus.FAILED if case.fault or case.status >= 500 else CallStatus.SUCCEEDED)
    assert invocation.http_status == case.status
    assert invocation.response_bytes == len(answer.body)
    if case.raw is None:
        assert (invocation.method, invocation.path) == (case.method, call.fn.path + case.target.partition("?")[0])
    if case.error is None:
        assert invocation.error is None
    else:
        _check_error(answer, invocation, case.error)


def _check_error(answer: Answer, invocation: Invocation, pattern: str) -> None:
    body = answer.json()
    assert re.search(pattern, body["error"]), body
    assert body["error"].startswith(invocation.error)
    assert body["request_id"] == invocation.request_id
