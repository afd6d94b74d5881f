"""Request bodies: the token comes first, and what the server holds is limited. Long work takes no thread of the API."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from sless.domain.ports import HttpPolicy
from tests.proxykit.fakes import NAMESPACE
from tests.proxykit.plugin import Serve, serve, upstream_of
from tests.proxykit.server import SETTINGS, Client, Front, until

__all__ = ["serve", "upstream_of"]
BASE = f"/v1/namespaces/{NAMESPACE}"
GOOD = "authorization: Bearer good\r\n"
SMALL_LIMITS = replace(SETTINGS, max_held_bytes=400_000, max_zip_bytes=300_000)


def post(client: Client, path: str, head: str, size: int, body: bytes = b"") -> None:
    client.send(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/zip\r\n{head}content-length: {size}\r\n\r\n".encode() + body)


@pytest.mark.parametrize(
    ("path", "head", "status", "code"),
    [
        (f"{BASE}/functions/f/upload", "", 401, "token_missing"),
        (f"{BASE}/functions/f/upload", "authorization: Bearer bad\r\n", 401, "token_malformed"),
        ("/v1/namespaces/other/functions/f/upload", GOOD, 403, "forbidden"),
        ("/v1/anything", "", 401, "token_missing"),
        (f"{BASE}/functions/f/invoke", "", 401, "token_missing"),
    ],
)
def test_the_token_is_checked_before_the_body_arrives(path: str, head: str, status: int, code: str) -> None:
    with Front(settings=SMALL_LIMITS) as front, front.connect() as client:
        post(client, path, head, 1000, b"half of it")
        reply = client.reply()
        assert (reply.status, json.loads(reply.body)["code"]) == (status, code)
        assert not front.plane.bodies.held


def test_a_trigger_with_tokens_refuses_before_the_body_arrives(serve: Serve) -> None:
    front = serve(route={"http": HttpPolicy(auth="token"), "wants_instances": False})
    with front.connect() as client:
        post(client, f"/fn/{NAMESPACE}/f", "", 1000, b"half of it")
        assert client.reply().status == 401


def test_held_uploads_are_limited_per_tenant_and_in_all() -> None:
    with Front(settings=SMALL_LIMITS) as front, front.connect() as first, front.connect() as second:
        post(first, f"{BASE}/functions/f/upload", GOOD, 90_001, b"x" * 90_000)
        until(lambda: front.plane.bodies.held[NAMESPACE] == 90_000)
        post(second, f"{BASE}/functions/f/upload", GOOD, 20_000, b"x" * 20_000)
        reply = second.reply()
        error = json.loads(reply.body)
        assert (reply.status, error["code"]) == (429, "overloaded") and "max_held_bytes" in error["error"]
        assert reply.header("retry-after")
        first.send(b"x")
        assert first.reply().status == 200
        until(lambda: not front.plane.bodies.held)


def test_bodies_of_runs_and_of_asynchronous_calls_are_limited(serve: Serve) -> None:
    front = serve(route={"wants_instances": False}, settings=SMALL_LIMITS)
    for head in ("", "prefer: respond-async\r\n"):
        with front.connect() as first, front.connect() as second:
            post(first, f"/fn/{NAMESPACE}/f", head, 99_999, b"x" * 90_000)
            until(lambda: front.plane.bodies.held[NAMESPACE] == 90_000)
            assert front.plane.bodies.held["127.0.0.1"] == 90_000
            post(second, f"/fn/{NAMESPACE}/f", head, 20_000, b"x" * 20_000)
            assert second.reply().status == 429
        until(lambda: not front.plane.bodies.held)


class SlowFlask:
    """Holds uploads and downloads of code until `may_go` is set, and counts them; answers other requests at once."""

    def __init__(self, size: int = 0) -> None:
        self.may_go = threading.Event()
        self.transfers = 0
        self._size = size

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"].endswith(("/upload", "/source")):
            self.transfers += 1
            self.may_go.wait(30)
        body = b"x" * self._size
        start_response("200 OK", [("content-length", str(len(body)))])
        return [body]


def test_uploads_take_no_thread_of_the_api_and_run_one_at_a_time_per_tenant() -> None:
    flask = SlowFlask()
    with Front(flask=flask) as front:
        clients = [front.connect() for _ in range(15)]
        for client in clients:
            post(client, f"{BASE}/functions/f/upload", GOOD, 2, b"ab")
        until(lambda: flask.transfers == 1)
        with front.connect() as other:
            other.send(f"GET {BASE}/functions HTTP/1.1\r\nhost: x\r\n{GOOD}\r\n".encode())
            assert other.reply().status == 200
        assert flask.transfers == 1, "a tenant uploads one at a time"
        flask.may_go.set()
        assert {client.reply().status for client in clients} == {200}
        assert flask.transfers == 15
        for client in clients:
            client.sock.close()


def test_slow_readers_of_large_answers_hold_no_thread_and_little_memory() -> None:
    flask = SlowFlask(20 * 2**20)
    flask.may_go.set()
    with Front(flask=flask) as front:
        slow = [front.connect() for _ in range(14)]
        for client in slow:
            client.send(f"GET {BASE}/functions HTTP/1.1\r\nhost: x\r\n{GOOD}\r\n".encode())
        statuses = [client.head()[0] for client in slow]
        assert statuses.count(200) == 3 and statuses.count(429) == 11, "64 MB of answers for one client"
        with front.connect() as other:
            other.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert other.reply().status == 200
        for client in slow:
            client.sock.close()
        until(lambda: status_of_a_large_answer(front) == 200)


def test_downloads_of_slow_readers_are_refused_before_the_work() -> None:
    flask = SlowFlask(20 * 2**20)
    flask.may_go.set()
    with Front(flask=flask) as front:
        slow = [front.connect() for _ in range(12)]
        for client in slow:
            client.send(f"GET {BASE}/functions/f/source HTTP/1.1\r\nhost: x\r\n{GOOD}\r\n".encode())
        statuses = [client.head()[0] for client in slow]
        assert set(statuses) == {200, 429} and statuses.count(200) <= 3
        assert flask.transfers <= 8, "8 MB of 64 are reserved for each"
        for client in slow:
            client.sock.close()


def status_of_a_large_answer(front: Front) -> int:
    with front.connect() as client:
        client.send(f"GET {BASE}/functions HTTP/1.1\r\nhost: x\r\n{GOOD}\r\n".encode())
        return client.head()[0]
