"""What sless keeps of an answer of the Kubernetes API."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import urllib3

from sless.kube import Kube, Unavailable
from sless.kube.client import CHUNK_BYTES, LOG_BYTES

LINE = b"x" * 1023 + b"\n"
SENT = LOG_BYTES * 3
LAST = b'{"sless_outcome": 1}\n'


class Api(BaseHTTPRequestHandler):
    """A pod's log of three times what is kept; `broken` says less than it announced."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(SENT + len(LAST)))
        self.end_headers()
        for _ in range(SENT // len(LINE) // 1024):
            self.wfile.write(LINE * 1024)
        if "broken" not in self.path:
            self.wfile.write(LAST)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def kube() -> Iterator[Kube]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    pool = urllib3.PoolManager()
    configuration = SimpleNamespace(host=f"http://127.0.0.1:{server.server_port}")
    yield Kube(SimpleNamespace(configuration=configuration, rest_client=SimpleNamespace(pool_manager=pool), update_params_for_auth=print))
    pool.clear()
    server.shutdown()
    thread.join()
    server.server_close()


def test_of_a_long_log_the_end_is_kept(kube: Kube) -> None:
    """A container that writes faster than its node looks must not take the server's memory."""
    log = kube.pod_logs("n", "p")
    assert LOG_BYTES <= len(log) <= LOG_BYTES + CHUNK_BYTES
    assert log.endswith("x\n" + LAST.decode())


def test_a_log_that_breaks_off_is_not_taken_for_a_whole_one(kube: Kube) -> None:
    with pytest.raises(Unavailable, match="broke off"):
        kube.pod_logs("n", "broken")
