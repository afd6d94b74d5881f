"""The server as a process: gunicorn's master and worker, signals, ports, and the memory that streams of 200 MB (1 GB) take."""

import contextlib
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxykit.fakes import NAMESPACE
from tests.proxykit.server import Client, until
from tests.proxykit.upstream import OK, Peer, Upstream, logs_or
from tests.services.forking import fork_server

PATH = f"/fn/{NAMESPACE}/f"


class Served:
    """A server in separate processes."""

    def __init__(self, upstream: Upstream | None = None, port: int = 0) -> None:
        self.data_dir = Path(tempfile.mkdtemp(prefix="sl-srv-", dir="/tmp"))
        options = [f"upstream={upstream.address}"] if upstream else []
        arguments = [str(self.data_dir), str(port), *options]
        self.process = fork_server(arguments, os.environ, str(self.data_dir), self.data_dir / "log", "tests.proxykit.served")

    def wait(self) -> "Served":
        until(lambda: (self.data_dir / "server.json").exists() or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.log
        self.port: int = json.loads((self.data_dir / "server.json").read_text())["port"]
        until(self.is_ready, 60)
        return self

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError, EOFError), Client(self.port, 10) as client:
            client.send(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
            return client.reply().status == 200
        return False

    def events(self, name: str) -> list[int]:
        """PIDs of the processes that logged this event, in order."""
        path = self.data_dir / "events"
        lines = path.read_text().split("\n") if path.exists() else []
        return [int(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " ")]

    @property
    def worker(self) -> int:
        return self.events("start")[-1]

    @property
    def log(self) -> str:
        return (self.data_dir / "log").read_text()

    def end(self) -> None:
        for pid in {self.process.pid, *self.events("start")}:
            with contextlib.suppress(ProcessLookupError):
                if is_ours(pid, self.data_dir):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait(30)
        shutil.rmtree(self.data_dir, ignore_errors=True)


def is_ours(pid: int, data_dir: Path) -> bool:
    try:
        return str(data_dir).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        if "slow" in first:
            peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
            time.sleep(1.5)
            peer.send(b"1\r\nb\r\n0\r\n\r\n")
        elif "hang" in first:
            peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
            peer.wait_for_close(60)
        else:
            peer.body(headers)
            peer.send(OK)

    opened = Upstream(logs_or(handler))
    yield opened
    opened.close()


@pytest.fixture
def served(upstream: Upstream) -> Iterator[Served]:
    server = Served(upstream)
    yield server.wait()
    server.end()


def get(port: int, path: str = PATH) -> int:
    with Client(port) as client:
        client.send(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        return client.reply().status


def test_the_server_writes_its_address_and_removes_it_at_the_end(served: Served) -> None:
    assert get(served.port) == 200
    assert served.events(f"listening {served.port}") == [served.process.pid]
    state = json.loads((served.data_dir / "server.json").read_text())
    assert state == {"pid": served.process.pid, "host": "127.0.0.1", "port": served.port, "url": f"http://127.0.0.1:{served.port}"}
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(60) == 0
    assert served.events("stop") == served.events("start")
    assert not (served.data_dir / "server.json").exists()


def test_responses_have_no_server_or_date_header(served: Served) -> None:
    with Client(served.port) as client:
        client.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert not {"server", "date"} & {name for name, _ in client.reply().headers}


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = Served(port=port)
        try:
            assert server.process.wait(60) == 1
            assert f"port {port} on 127.0.0.1 is in use" in server.log
            assert "Traceback" not in server.log
        finally:
            server.end()


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_running_calls_finish_after_a_signal_to_the_master(served: Served, stop_signal: signal.Signals) -> None:
    with Client(served.port) as client:
        client.send(f"GET {PATH}/slow HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        client.until(b"1\r\na\r\n")
        served.process.send_signal(stop_signal)
        assert client.until(b"0\r\n\r\n") == b"1\r\nb\r\n"
    assert served.process.wait(60) == 0
    assert len(served.events("stop")) == 1


def test_ctrl_c_stops_all_processes(served: Served) -> None:
    """A terminal sends SIGINT to both the master and the worker."""
    assert get(served.port) == 200
    for pid in (served.worker, served.process.pid):
        os.kill(pid, signal.SIGINT)
    assert served.process.wait(60) == 0
    assert served.events("stop") == served.events("start")


def test_a_call_that_hangs_does_not_block_the_stop(served: Served) -> None:
    assert get(served.port) == 200
    with Client(served.port) as client:
        client.send(f"GET {PATH}/hang HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        client.until(b"1\r\na\r\n")
        started = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
        assert time.monotonic() - started < 8, "the stop waited for the call"
    assert len(served.events("stop")) == 1


def test_hup_replaces_the_worker_without_overlap_or_failed_calls(served: Served) -> None:
    stop, statuses = threading.Event(), []

    def call() -> None:
        while not stop.is_set():
            statuses.append(get(served.port))

    thread = threading.Thread(target=call)
    thread.start()
    first = served.worker
    served.process.send_signal(signal.SIGHUP)
    until(lambda: len(served.events("start")) == 2, 60)
    until(lambda: get(served.port) == 200, 60)
    stop.set()
    thread.join(60)
    assert set(statuses) == {200}
    events = (served.data_dir / "events").read_text().split("\n")
    assert [line.partition(" ")[0] for line in events if line.startswith(("start", "stop"))] == ["start", "stop", "start"]
    assert served.worker != first


def test_a_killed_worker_is_replaced(served: Served) -> None:
    os.kill(served.worker, signal.SIGKILL)
    until(lambda: len(served.events("start")) == 2 and get(served.port) == 200, 60)


def test_kill_9_of_the_master_stops_the_worker_and_frees_the_port(served: Served) -> None:
    worker = served.worker
    served.process.kill()
    served.process.wait(30)
    until(lambda: not is_ours(worker, served.data_dir), 60)
    assert served.events("stop") == [worker]
    with socket.create_server(("127.0.0.1", served.port)):
        pass


def resident_mb(pid: int) -> float:
    fields = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in fields.splitlines() if line.startswith("VmRSS"))


@pytest.mark.parametrize("size_mb", [200, pytest.param(1024, marks=[pytest.mark.soak, pytest.mark.timeout(600)])])
def test_streams_take_constant_memory(size_mb: int) -> None:
    size = size_mb * 2**20
    piece = b"x" * 2**20
    most = 0.0

    def handler(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        # Slow at first, so that a sender without back-pressure would have to buffer.
        time.sleep(1)
        if first.startswith("POST"):
            peer.drain(size)
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size_mb):
            peer.send(piece)

    upstream = Upstream(logs_or(handler))
    server = Served(upstream)
    try:
        server.wait()
        get(server.port, "/healthz")
        before = resident_mb(server.worker)
        with Client(server.port, 120) as client:
            for method, length in (("POST", f"content-length: {size}\r\n"), ("GET", "")):
                client.send(f"{method} {PATH} HTTP/1.1\r\nhost: x\r\n{length}\r\n".encode())
                for _ in range(size_mb if method == "POST" else 0):
                    client.send(piece)
                    most = max(most, resident_mb(server.worker))
                client.until(b"\r\n\r\n")
                time.sleep(1)
                got = 0
                while got < size:
                    got += len(client.some())
                    most = max(most, resident_mb(server.worker))
                assert got == size
        assert most - before < 30, f"{before:.0f} MB before, {most:.0f} MB at most"
    finally:
        server.end()
        upstream.close()
