"""The client's HTTP transport: retries, errors, paging and streams."""

import json
import socket
import threading

import pytest

from sless.client import ClientError, Unreachable, connect
from sless.client.transport import Transport
from tests.unit.cli.contract_server import NAMESPACE, TOKEN

BASE = f"/v1/namespaces/{NAMESPACE}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def late_server():
    """Return a port that refuses connections at first; `start` answers one request there and counts."""
    port, counted = free_port(), []

    def serve() -> None:
        with socket.create_server(("127.0.0.1", port)) as listener:
            listener.settimeout(10)
            connection, _ = listener.accept()
            with connection:
                counted.append(connection.recv(65536).split(b" ")[0])
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    thread = threading.Thread(target=serve)
    timer = threading.Timer(0.15, thread.start)
    timer.start()
    yield port, counted
    timer.join()
    thread.join()


def test_an_idempotent_request_waits_for_a_restarting_server(late_server):
    port, counted = late_server
    assert Transport(f"http://127.0.0.1:{port}", "t").json("GET", "/x") == {}
    assert counted == [b"GET"]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_other_requests_are_sent_once(method, monkeypatch):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    transport = Transport(f"http://127.0.0.1:{free_port()}", "t")
    with pytest.raises(Unreachable, match="connection refused") as caught:
        transport.json(method, "/x")
    assert (caught.value.status, caught.value.code, slept) == (0, "unreachable", [])
    with pytest.raises(Unreachable):
        transport.json("GET", "/x")
    assert len(slept) == 3


def test_a_request_that_reached_the_server_is_not_retried():
    counted = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def break_off() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    text = connection.recv(65536)
                    if text == b"stop":
                        return
                    counted.append(text)

        thread = threading.Thread(target=break_off)
        thread.start()
        port = listener.getsockname()[1]
        with pytest.raises(Unreachable):
            Transport(f"http://127.0.0.1:{port}", "t").json("GET", "/x")
        with socket.create_connection(("127.0.0.1", port)) as last:
            last.sendall(b"stop")
            thread.join()
    assert len(counted) == 1


def test_errors_carry_all_fields_of_the_answer(client, state):
    body = {"error": "wrong", "code": "invalid", "details": [{"field": "memory_mb", "message": "too much"}], "request_id": "r7"}
    state.replies[("GET", f"{BASE}/functions/x")] = (400, {}, json.dumps(body).encode())
    with pytest.raises(ClientError) as caught:
        client.functions.get("x")
    error = caught.value
    assert (str(error), error.status, error.code, error.request_id) == ("wrong", 400, "invalid", "r7")
    assert error.details == ({"field": "memory_mb", "message": "too much"},)


@pytest.mark.parametrize(
    "status, headers, body, text",
    [
        (502, {"Content-Type": "text/html"}, b"<h1>Bad\n gateway</h1>", "found HTTP 502: <h1>Bad gateway</h1>"),
        (302, {"Location": "https://login.example/"}, b"", "found HTTP 302 to https://login.example/"),
        (200, {}, b"<html>a login page</html>", "found HTTP 200: <html>a login page"),
        (500, {}, b"[1]", r"found HTTP 500: \[1\]"),
    ],
)
def test_answers_of_other_servers_are_shown(client, state, status, headers, body, text):
    state.replies[("GET", "/v1/runtimes")] = (status, headers, body)
    with pytest.raises(ClientError, match=text) as caught:
        client.runtimes()
    assert caught.value.status == status


def test_netrc_does_not_replace_our_token(client, state, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    client.transport._session.trust_env = True  # as for every remote server
    client.whoami()
    assert state.requests[-1][2]["authorization"] == f"Bearer {TOKEN}"


def test_the_environments_proxy_is_not_used_for_local_servers(client, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    assert client.whoami()["namespace"] == NAMESPACE


def test_pages_are_followed_only_at_the_same_server(client, state):
    path = f"{BASE}/functions"
    link = {"Link": '<http://elsewhere.example/v1/x?cursor=abc&limit=1>; rel="next"'}
    state.replies[("GET", path)] = (200, link, b'[{"name": "a"}]')
    found = client.functions.list(limit=1)
    assert next(found)["name"] == "a"
    state.replies[("GET", path)] = (200, {}, b'[{"name": "b"}]')
    assert [item["name"] for item in found] == ["b"]
    assert state.requests[-1][1] == f"{path}?cursor=abc&limit=1"


def test_the_etag_is_sent_as_if_match(client, state):
    state.functions["x"] = {"name": "x"}
    _, etag = client.functions.fetch("x")
    client.functions.merge("x", {"memory_mb": 256}, etag)
    assert etag == '"7"'
    assert state.calls("PATCH")[-1][1]["if-match"] == '"7"'


def test_names_are_escaped_in_paths(client, state):
    with pytest.raises(ClientError):
        client.functions.get("../../whoami")
    assert state.requests[-1][1] == f"{BASE}/functions/..%2F..%2Fwhoami"


@pytest.mark.parametrize(
    "url, token, text", [("ftp://x", "t", "server's URL"), ("x:9090", "t", "server's URL"), ("http://x", "a\nb", "token contains")]
)
def test_an_invalid_url_or_token_is_reported_before_sending(url, token, text):
    with pytest.raises(ClientError, match=text):
        connect(url, token)


def test_lines_arrive_during_the_answer(client, state):
    state.functions["x"] = {"name": "x"}
    state.hold_logs = True
    with client.functions.logs("x", follow="1") as lines:
        assert [next(lines), next(lines)] == ["first", "second"]


def test_a_stream_that_breaks_off_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def half() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")

        thread = threading.Thread(target=half)
        thread.start()
        transport = Transport(f"http://127.0.0.1:{listener.getsockname()[1]}", "t")
        with transport.lines("/x", {}) as lines:
            assert next(lines) == "one"
            with pytest.raises(Unreachable, match="connection broke"):
                next(lines)
        thread.join()
