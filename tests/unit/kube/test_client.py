"""Reading pod logs from the Kubernetes API."""

from collections.abc import Iterator
from itertools import chain
from types import SimpleNamespace

import pytest
import urllib3
from werkzeug import Request, Response

from sless.kube import Kube, Unavailable
from sless.kube.client import CHUNK_BYTES, LOG_BYTES
from tests.services.fake_http import serving

LINE = b"x" * 1023 + b"\n"
SENT = LOG_BYTES * 3
LAST = b'{"sless_outcome": 1}\n'


def log_of(request: Request) -> Response:
    """A log three times as long as sless keeps; `broken` sends less than its Content-Length."""
    lines = (LINE * 1024 for _ in range(SENT // len(LINE) // 1024))
    return Response(chain(lines, [] if "broken" in request.path else [LAST]), headers={"Content-Length": str(SENT + len(LAST))})


@pytest.fixture
def kube() -> Iterator[Kube]:
    pool = urllib3.PoolManager()
    with serving(log_of) as url:
        configuration = SimpleNamespace(host=url)
        yield Kube(
            SimpleNamespace(configuration=configuration, rest_client=SimpleNamespace(pool_manager=pool), update_params_for_auth=print)
        )
        pool.clear()


def test_the_end_of_a_long_log_is_kept(kube: Kube) -> None:
    """Nodes check log sizes only every few seconds, so the log of a fast writer must not fill the server's memory."""
    log = kube.pod_logs("n", "p")
    assert LOG_BYTES <= len(log) <= LOG_BYTES + CHUNK_BYTES
    assert log.endswith("x\n" + LAST.decode())


def test_a_truncated_log_is_an_error(kube: Kube) -> None:
    with pytest.raises(Unavailable, match="broke off"):
        kube.pod_logs("n", "broken")
