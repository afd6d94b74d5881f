"""Functions on separate hosts (SLESS_INGRESS_HOST), on the fast path and the slow path."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sless.config import Settings
from sless.domain.function_urls import FunctionUrls, function_urls_of
from sless.errors import ConfigError
from sless.http.serialize import call_url
from sless.proxy.hosts import FunctionHosts, function_hosts_of
from tests.proxykit.fakes import route_of
from tests.proxykit.server import SETTINGS, Front
from tests.proxykit.upstream import Peer, Upstream, logs_or

TENANT = "sless-0123456789abcdef"
HOST = f"f-{TENANT}.fn.example.org"


def answer_with_path(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
    """Respond with the request line and the path that the handler gets."""
    body = f"{first} | {dict(headers).get('x-sless-full-path')}".encode()
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


@pytest.fixture(scope="module", params=["fast", "slow"])
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    upstream = Upstream(logs_or(answer_with_path))
    route = route_of(addresses=[upstream.address], namespace=TENANT)
    settings = replace(SETTINGS, ingress_host="fn.example.org")
    with Front(route, settings=settings, fast_path=request.param == "fast") as front:
        yield front
    upstream.close()


def ask(front: Front, host: str, target: str) -> tuple[int, str]:
    with front.connect() as client:
        client.send(f"GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        reply = client.reply()
        return reply.status, reply.body.decode()


@pytest.mark.parametrize("host", [HOST, HOST.upper(), HOST + ":8443"])
@pytest.mark.parametrize("target", ["/", "/a%2Fb?x=1&x=2", "/healthz", "/v1/whoami", "/fn/x/y"])
def test_every_path_on_a_function_host_reaches_the_function(front, host, target):
    path = target.partition("?")[0]
    assert ask(front, host, target) == (200, f"GET {target} HTTP/1.1 | {path}")


def test_one_connection_serves_several_hosts(front):
    with front.connect() as client:
        for host, target in ((HOST, "/one"), ("sless.test", f"/fn/{TENANT}/f/two"), (HOST, "/three")):
            client.send(f"GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
            reply = client.reply()
            assert reply.body.decode() == f"GET /{target.rpartition('/')[2]} HTTP/1.1 | {target}"


def test_a_missing_function_is_404(front):
    assert ask(front, f"g-{TENANT}.fn.example.org", "/")[0] == 404


@pytest.mark.parametrize(
    "host", ["fn.example.org", "console.fn.example.org", "f-sless-0123.fn.example.org", f"f-{TENANT}.example.org", "x"]
)
def test_other_hosts_reach_sless(front, host):
    assert ask(front, host, "/healthz")[0] == 200


def test_the_longest_name_fits_in_a_dns_label():
    label = "a" * 40 + "-" + TENANT
    assert len(label) <= 63
    hosts = FunctionHosts(FunctionUrls(template="", domain="x.org"))
    assert hosts.prefix_of([(b"host", f"{label}.x.org".encode())], b"/") == (f"/fn/{TENANT}/{'a' * 40}".encode(), None)


def test_the_reported_url_uses_the_function_host(tmp_path):
    settings = Settings(data_dir=tmp_path, ingress_host="fn.example.org")
    assert call_url(settings, TENANT, "f") == f"http://{HOST}"
    assert call_url(Settings(data_dir=tmp_path, ingress_host="fn.example.org", ingress_tls_secret="t"), TENANT, "f") == f"https://{HOST}"
    with_url = Settings(data_dir=tmp_path, ingress_host="fn.example.org", external_url="https://sless.example.org")
    assert call_url(with_url, TENANT, "f") == f"https://sless.example.org/fn/{TENANT}/f"
    assert function_hosts_of(with_url) is None


@pytest.fixture(scope="module", params=["fast", "slow"])
def separate(request: pytest.FixtureRequest) -> Iterator[Front]:
    """The console on one host, functions on another."""
    upstream = Upstream(logs_or(answer_with_path))
    settings = replace(SETTINGS, external_url="https://sless.example.org", functions_url="https://fn.example.net:8443")
    route = route_of(addresses=[upstream.address], namespace=TENANT)
    with Front(route, settings=settings, fast_path=request.param == "fast") as front:
        yield front
    upstream.close()


CALL = f"/fn/{TENANT}/f/x"


@pytest.mark.parametrize("host", ["fn.example.net", "FN.example.net:8443"])
def test_functions_can_only_be_called_on_their_host(separate, host):
    assert ask(separate, host, CALL) == (200, f"GET /x HTTP/1.1 | {CALL}")


@pytest.mark.parametrize("host", ["sless.example.org", "sless.example.org:80", "127.0.0.1", "[::1]", "a.fn.example.net", "x"])
@pytest.mark.parametrize("target", [CALL, "http://fn.example.net" + CALL, CALL + "?/fn/"])
def test_no_other_host_serves_a_function(separate, host, target):
    status, text = ask(separate, host, target)
    assert status == 404
    assert "not called on this host, but at https://fn.example.net:8443/fn/{namespace}/{name}" in text


@pytest.mark.parametrize(
    "target", ["/", "/funcs", "/v1/whoami", "/static/x.js", "/openapi.json", "/metrics", "/fn", "http://sless.example.org/funcs"]
)
def test_the_functions_host_serves_nothing_else(separate, target):
    status, text = ask(separate, "fn.example.net", target)
    assert status == 404
    assert "functions only; REST interface and console: https://sless.example.org" in text


@pytest.mark.parametrize("host", ["sless.example.org", "127.0.0.1:9090", "sless.sless.svc", "fn.example.net"])
def test_health_is_served_on_all_hosts(separate, host):
    assert ask(separate, host, "/healthz")[0] == 200


@pytest.mark.parametrize("host", ["sless.example.org", "127.0.0.1:9090", "sless.sless.svc"])
def test_other_hosts_serve_everything_else(separate, host):
    assert "PATH_INFO=/funcs" in ask(separate, host, "/funcs")[1]


def test_a_connection_may_change_its_host(separate):
    with separate.connect() as client:
        found = []
        for host in ("fn.example.net", "sless.example.org", "fn.example.net"):
            client.send(f"GET {CALL} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
            found.append(client.reply().status)
    assert found == [200, 404, 200]


def test_a_wildcard_gives_each_function_a_host(tmp_path):
    settings = Settings(data_dir=tmp_path, external_url="https://sless.example.org", functions_url="https://*.fn.example.net:8443")
    assert call_url(settings, TENANT, "f") == f"https://f-{TENANT}.fn.example.net:8443"
    hosts = function_hosts_of(settings)

    def prefix_of(host: str, target: bytes) -> tuple[bytes, bool]:
        """The path of the function that the host names, and whether the request is refused."""
        prefix, refusal = hosts.prefix_of([(b"host", host.encode())], target)
        return prefix, refusal is not None

    assert prefix_of(f"f-{TENANT}.fn.example.net", b"/funcs") == (f"/fn/{TENANT}/f".encode(), False)
    assert prefix_of("sless.example.org", b"/funcs") == (b"", False)
    assert prefix_of("sless.example.org", CALL.encode()) == prefix_of("other.fn.example.net", b"/funcs") == (b"", True)


def test_the_reported_url_uses_the_functions_host(tmp_path):
    settings = Settings(data_dir=tmp_path, external_url="https://sless.example.org", functions_url="https://fn.example.net/")
    assert call_url(settings, TENANT, "f") == f"https://fn.example.net/fn/{TENANT}/f"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("fn.example.net", "expected https://HOST"), ("ftp://fn.example.net", "expected https://HOST"),
        ("https://fn.example.net/x", "without a path"), ("https://a.*.net", "expected https://HOST"), ("https://u:p@x", "expected"),
        ("https://x:port", "expected"), ("https://sless.example.org:8443", "another host than that of the console"),
        ("https://[", "expected"), ("https://*.*.net", "expected"),
    ],
)  # fmt: skip
def test_an_invalid_functions_url_is_refused(url, message):
    with pytest.raises(ConfigError, match=f"SLESS_FUNCTIONS_URL: .*{re.escape(message)}"):
        function_urls_of(Settings(external_url="https://sless.example.org", functions_url=url))
