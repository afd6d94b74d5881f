"""Functions on separate hosts (SLESS_INGRESS_HOST), on the fast path and the slow path."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sless.config import Settings
from sless.http.serialize import call_url
from sless.proxy.hosts import FunctionHosts, function_hosts_of
from tests.proxykit.fakes import route_of
from tests.proxykit.server import SETTINGS, Front
from tests.proxykit.upstream import Peer, Upstream, logs_or

TENANT = "sless-0123456789abcdef"
HOST = f"f-{TENANT}.fn.example.org"


def tell(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
    """Respond with the request line and the path that the handler gets."""
    body = f"{first} | {dict(headers).get('x-sless-full-path')}".encode()
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


@pytest.fixture(scope="module", params=["fast", "slow"])
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    upstream = Upstream(logs_or(tell))
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
    assert FunctionHosts("x.org").find_prefix([(b"host", f"{label}.x.org".encode())]) == f"/fn/{TENANT}/{'a' * 40}".encode()


def test_the_reported_url_uses_the_function_host(tmp_path):
    settings = Settings(data_dir=tmp_path, ingress_host="fn.example.org")
    assert call_url(settings, TENANT, "f") == f"http://{HOST}"
    assert call_url(Settings(data_dir=tmp_path, ingress_host="fn.example.org", ingress_tls_secret="t"), TENANT, "f") == f"https://{HOST}"
    with_url = Settings(data_dir=tmp_path, ingress_host="fn.example.org", external_url="https://sless.example.org")
    assert call_url(with_url, TENANT, "f") == f"https://sless.example.org/fn/{TENANT}/f"
    assert function_hosts_of(with_url) is None
