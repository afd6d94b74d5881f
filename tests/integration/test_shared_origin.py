"""Functions on the console's host cannot affect its pages: response headers, cookies, service workers, sandbox. Fast path and slow path."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sless.proxy.isolation import isolated
from tests.proxykit.fakes import route_of
from tests.proxykit.server import SETTINGS, Front
from tests.proxykit.upstream import Peer, Upstream, logs_or

TENANT = "sless-0123456789abcdef"
SHARED, OWN = "sless.test", f"f-{TENANT}.fn.example.org"
ANSWER = [
    ("Service-Worker-Allowed", "/"), ("Clear-Site-Data", '"*"'), ("Strict-Transport-Security", "max-age=1"), ("Alt-Svc", 'h3=":1"'),
    ("Set-Cookie", "sless_token=x; Path=/"), ("Set-Cookie", "mine=1"), ("Content-Type", "text/html"),
    ("Content-Security-Policy", "default-src 'self'"),
]  # fmt: skip


def attack(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in ANSWER)
    peer.send(f"HTTP/1.1 200 OK\r\n{lines}content-length: 2\r\n\r\nok".encode())


@pytest.fixture(scope="module", params=["fast", "slow"])
def front(request: pytest.FixtureRequest) -> Iterator[Front]:
    upstream = Upstream(logs_or(attack))
    settings = replace(SETTINGS, ingress_host="fn.example.org", backend="kubernetes")
    with Front(route_of(addresses=[upstream.address], namespace=TENANT), settings=settings, fast_path=request.param == "fast") as front:
        yield front
    upstream.close()


def headers_of(front: Front, host: str, target: str, more: str = "") -> tuple[int, list[tuple[str, str]]]:
    with front.connect() as client:
        client.send(f"GET {target} HTTP/1.1\r\nhost: {host}\r\n{more}\r\n".encode())
        reply = client.reply()
        return reply.status, [(name.lower(), value) for name, value in reply.headers]


def test_headers_on_the_shared_host_affect_only_the_function(front: Front) -> None:
    status, headers = headers_of(front, SHARED, f"/fn/{TENANT}/f")
    names = [name for name, _ in headers]
    assert status == 200 and not {"service-worker-allowed", "clear-site-data", "strict-transport-security", "alt-svc"} & set(names)
    assert [value for name, value in headers if name == "set-cookie"] == ["mine=1"]
    policies = [value for name, value in headers if name == "content-security-policy"]
    assert policies[0] == "default-src 'self'" and policies[1].startswith("sandbox ") and "allow-same-origin" not in policies[1]


def test_on_its_own_host_a_function_may_set_them(front: Front) -> None:
    status, headers = headers_of(front, OWN, "/", "service-worker: script\r\n")
    assert status == 200 and [value for name, value in headers if name == "set-cookie"] == ["sless_token=x; Path=/", "mine=1"]
    assert {"service-worker-allowed", "strict-transport-security"} <= {name for name, _ in headers}
    assert [value for name, value in headers if name == "content-security-policy"] == ["default-src 'self'"]


def test_the_script_of_a_service_worker_is_refused(front: Front) -> None:
    status, headers = headers_of(front, SHARED, f"/fn/{TENANT}/f", "Service-Worker: script\r\n")
    assert status == 403 and dict(headers)["x-sless-error"] == "forbidden"


@pytest.mark.parametrize(
    "cookie",
    ["sless_token=x", " SLESS_TOKEN=x", "=sless_token=x", "sless_token", "__Host-sless_token=x",
     "__Secure-sless_session=x; Path=/", "\tsless_x=1"],
)  # fmt: skip
def test_cookies_with_names_of_the_console_are_removed(cookie: str) -> None:
    assert isolated([(b"set-cookie", cookie.encode())], sandbox=False) == []


@pytest.mark.parametrize(
    ("content_type", "page"),
    [
        (None, True), ("text/html; charset=utf-8", True), ("application/xhtml+xml", True), ("image/svg+xml", True), ("", True),
        ("nonsense", True), ("application/json", False), ("text/plain", False), ("image/png", False), ("text/event-stream", False),
    ],
)  # fmt: skip
def test_pages_get_a_sandbox_policy_and_other_answers_do_not(content_type: str | None, page: bool) -> None:
    headers = [(b"content-type", content_type.encode())] if content_type is not None else []
    assert (len(isolated(headers, sandbox=True)) == len(headers) + 1) is page
    assert isolated(headers, sandbox=False) == headers
