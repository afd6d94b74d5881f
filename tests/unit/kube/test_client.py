"""Reading pod logs from the Kubernetes API."""

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
    """Serves a log three times as long as sless keeps; `broken` sends less than its Content-Length."""

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


def test_the_end_of_a_long_log_is_kept(kube: Kube) -> None:
    """Nodes check log sizes only now and then, so a fast writer's log must not fill the server's memory."""
    log = kube.pod_logs("n", "p")
    assert LOG_BYTES <= len(log) <= LOG_BYTES + CHUNK_BYTES
    assert log.endswith("x\n" + LAST.decode())


def test_a_truncated_log_is_an_error(kube: Kube) -> None:
    with pytest.raises(Unavailable, match="broke off"):
        kube.pod_logs("n", "broken")
