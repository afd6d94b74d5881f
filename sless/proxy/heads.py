"""Header rules in both directions, as in contract §5 and runtimes/README.md, and status lines with the standard reason phrases. Pure."""

import ipaddress
from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from sless.proxy.request import Headers, Request

HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
     b"transfer-encoding", b"upgrade"}
)  # fmt: skip
_REQUEST_DROPPED = HOP_BY_HOP | {
    b"expect", b"content-length", b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-request-id",
}  # fmt: skip
_ANSWER_DROPPED = HOP_BY_HOP | {b"x-request-id"}
_USUAL = (b"keep-alive", b"close", b"Keep-Alive", b"Close")
_FUNCTION_ERROR = b"x-sless-function-error"
_SLESS = b"x-sless-"
_REFUSALS = {"bad_result": 502, "invalid_json": 400}
"""Refusals by the runtime that become X-Sless-Error. All others are the proxy's, and user code can write to the instance's socket too."""


class Trust:
    """Peers whose X-Forwarded-* headers are trusted: addresses and CIDRs. Raises ValueError for anything else."""

    def __init__(self, proxies: Iterable[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(proxy, strict=False) for proxy in proxies)

    def __contains__(self, address: str) -> bool:
        if not self._networks:
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)


class CallIdentity(Protocol):
    """Identifies a call to its handler."""

    @property
    def id(self) -> str: ...

    @property
    def request_id(self) -> str: ...

    @property
    def trigger(self) -> str: ...


def named_by_connection(headers: Headers) -> frozenset[bytes]:
    """Names that Connection headers list, which are dropped with them."""
    named: frozenset[bytes] = frozenset()
    for name, value in headers:
        if name == b"connection" and value not in _USUAL:
            named |= frozenset(token.strip().lower() for token in value.split(b","))
    return named


def request_head(call: CallIdentity, request: Request, timeout_sec: int, trust: Trust) -> bytes:
    """The head for the instance, without the framing header and the final empty line, which depend on the body."""
    return request_frame(request, call.trigger, timeout_sec, trust).head_of(call)


class RequestFrame(NamedTuple):
    """Parts of the head shared by all calls with this request: `before` and `after` the lines of the single call."""

    before: bytes
    after: bytes

    def head_of(self, call: CallIdentity) -> bytes:
        own = f"x-request-id: {call.request_id}\r\nx-sless-invocation-id: {call.id}\r\n"
        return self.before + own.encode("latin-1") + self.after


def request_frame(request: Request, trigger: str, timeout_sec: int, trust: Trust) -> RequestFrame:
    headers = request.headers
    named = named_by_connection(headers)
    lines = [
        name + b": " + value
        for name, value in headers
        if not (name in _REQUEST_DROPPED or name in named or b"_" in name or name.startswith(_SLESS))
    ]
    client, forwarded = _forwarded_of(request, trust)
    full_path = request.shown_path.decode("latin-1")
    after = f"x-sless-trigger: {trigger}\r\nx-sless-full-path: {full_path}\r\nx-sless-client-ip: {client}{forwarded}{request.extra}\r\n"
    if timeout_sec:
        after += f"x-sless-timeout-ms: {timeout_sec * 1000}\r\n"
    first = request.method.encode() + b" " + request.target + b" HTTP/1.1"
    return RequestFrame(b"\r\n".join([first, *lines, b""]), after.encode("latin-1"))


def client_of(request: Request, trust: Trust) -> str:
    """The address that the call came from: the last one that is not a trusted proxy."""
    if request.client not in trust:
        return request.client
    chain = [part.strip() for part in _joined(request, b"x-forwarded-for").split(",") if part.strip()]
    return next((address for address in reversed(chain) if address not in trust), chain[0] if chain else request.client)


def _forwarded_of(request: Request, trust: Trust) -> tuple[str, str]:
    """(client address, X-Forwarded-* lines, each after a line break)."""
    peer, proto, host = request.client, request.scheme, request.text(b"host")
    chain, client = peer, peer
    if peer in trust:
        client = client_of(request, trust)
        before = _joined(request, b"x-forwarded-for")
        chain = f"{before}, {peer}" if before else peer
        proto = request.text(b"x-forwarded-proto") or proto
        host = request.text(b"x-forwarded-host") or host
    return client, f"\r\nx-forwarded-for: {chain}\r\nx-forwarded-host: {host}\r\nx-forwarded-proto: {proto}"


def _joined(request: Request, name: bytes) -> str:
    return ", ".join(value.decode("latin-1") for key, value in request.headers if key == name)


class Answer(NamedTuple):
    """The answer for the caller. `fault` is the code of a refusal by the runtime, `error` the text for history."""

    status: int
    headers: Headers
    fault: str | None = None
    error: str | None = None


def answer_of(status: int, headers: Headers, request_id: bytes) -> Answer:
    """The whole answer: `kept_of` with X-Request-Id."""
    answer = kept_of(status, headers)
    answer.headers.append((b"x-request-id", request_id))
    return answer


def kept_of(status: int, headers: Headers) -> Answer:
    """The part of the answer shared by all calls that get it. Drops headers that a function may not set and the length of a 204; translates
    X-Sless-Fault and X-Sless-Error-Message."""
    named = named_by_connection(headers)
    kept, fault, error = [], None, None
    for pair in headers:
        name = pair[0]
        if name.startswith(_SLESS):
            if name == _FUNCTION_ERROR:
                kept.append(pair)
            elif name == b"x-sless-fault":
                fault = pair[1].decode("latin-1")
            elif name == b"x-sless-error-message":
                error = unquote(pair[1].decode("latin-1"))
        elif not (name in _ANSWER_DROPPED or name in named or b"_" in name or (status == 204 and name == b"content-length")):
            kept.append(pair)
    if fault and _REFUSALS.get(fault) == status:
        kept.append((b"x-sless-error", fault.encode("latin-1")))
    return Answer(status=status, headers=kept, fault=fault, error=error)


def _line_of(status: int) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


STATUS_LINES = {status: _line_of(status) for status in range(200, 600)}
