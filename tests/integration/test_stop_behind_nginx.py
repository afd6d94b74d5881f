"""A server that stops loses no call that a proxy sends over a connection it has kept open."""

import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from tests.services.nginx import running_nginx
from tests.services.product import Product, wait_until

CONNECTIONS = 6
HANDLER = "import time\ndef handle(event):\n    time.sleep(event['sleep'])\n    return event\n"


def test_kept_connections_get_one_more_answer(start_product: Callable[..., Product], tmp_path: Path) -> None:
    product = start_product()
    path = product.tenant("ada").deploy("f", HANDLER)
    host, port = product.url.removeprefix("http://").split(":")

    def is_closed() -> bool:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError:
            return True
        return False

    with running_nginx(tmp_path, product.url) as url, ThreadPoolExecutor(CONNECTIONS) as pool:

        def call(sleep_sec: float) -> int:
            return requests.post(url + path, json={"sleep": sleep_sec}, timeout=30).status_code

        # At the same time, so that nginx opens that many connections and keeps them; it has no other ones and does not retry.
        assert list(pool.map(call, [0.5] * CONNECTIONS)) == [200] * CONNECTIONS
        assert product.process is not None
        product.process.send_signal(signal.SIGTERM)
        wait_until(is_closed, "no more connections are accepted")
        assert list(pool.map(call, [0.5] * CONNECTIONS)) == [200] * CONNECTIONS
        assert product.process.wait(30) == 0
