"""The real HTTP protocol and application in this process, on a free port, over fakes; and a raw client."""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import uvicorn
import uvloop

from sless.asgi import Application, ApplicationParts, Follower, FollowRequest
from sless.config import Settings
from sless.domain.model import Run
from sless.domain.ports import ObservedRun
from sless.errors import NotFound
from sless.proxy.history_sink import link_to
from sless.proxy.plane import DataPlane, PlaneParts
from sless.proxy.wait_queue import WaitQueue
from sless.server.worker import FrontWorker
from tests.proxykit.fakes import NAMESPACE, FakeBackend, FakeHistory, FakeQueue, FakeRoutes, FakeVerifier
from tests.waiting import pauses

SETTINGS = Settings(instance_wait_sec=2)


def hello_flask(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Stands in for Flask: answers with the request it received."""
    body = environ["wsgi.input"].read()
    names = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_COOKIE", "HTTP_X_A", "CONTENT_LENGTH", "HTTP_X_REQUEST_ID")
    text = "\n".join(f"{name}={environ.get(name)}" for name in names) + f"\nbody={len(body)}"
    start_response("200 OK", [("content-type", "text/plain")])
    return [text.encode()]


def no_follower(request: FollowRequest) -> Follower:
    raise NotFound(str(request.kind), request.name)


@dataclass
class Fakes:
    routes: FakeRoutes
    history: FakeHistory
    queue: FakeQueue
    backend: FakeBackend


class Front:
    """A running server. `fast_path` False: no call takes the fast path. `changes` replace fields of asgi.ApplicationParts."""

    def __init__(
        self, *routes: Any, settings: Settings = SETTINGS, fast_path: bool = True, waiting: WaitQueue | None = None, **changes: Any
    ) -> None:
        self.fakes = Fakes(FakeRoutes(*routes), FakeHistory(), FakeQueue(), FakeBackend())
        self._settings = settings
        self._changes = changes
        self._fast_path = fast_path
        self._waiting = waiting or WaitQueue()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.plane: DataPlane
        self._failure: BaseException | None = None
        self._server: uvicorn.Server
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Front":
        self._thread.start()
        assert self._started.wait(30), "the server did not start"
        until(lambda: self.plane.routes.loaded)
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server did not stop"
        if self._failure is not None:
            raise self._failure

    def set_routes(self, *routes: Any) -> None:
        """Changes the routes and waits until they are served."""
        self.fakes.routes.set(*routes)
        self.plane.routes.wake()
        wanted = {(route.workload_id, route.endpoints) for route in routes}
        until(lambda: {(live.route.workload_id, live.route.endpoints) for live in self.plane.routes.live_routes()} == wanted)

    def limit(self, **limits: int) -> None:
        """Changes the limits of the tenant and waits until they apply."""
        before = self.plane.routes.revision
        self.fakes.routes.limit(**limits)
        self.plane.routes.wake()
        until(lambda: self.plane.routes.revision > before)

    @property
    def server_state(self) -> Any:
        """uvicorn's state: its open connections and running requests."""
        return self._server.server_state

    def on_loop(self, call: Callable[[], object]) -> None:
        """Runs `call` on the server's event loop."""
        self._loop.call_soon_threadsafe(call)

    def run(self, run: Run, timeout_sec: float = 30) -> ObservedRun:
        """Executes a run as the control loops do, and waits for its end."""
        ended: Future[ObservedRun] = Future()
        self.plane.invoker.begin(run, timeout_sec, ended.set_result)
        return ended.result(timeout_sec + 10)

    def flush(self) -> FakeHistory:
        self.plane.recorder.flush()
        return self.fakes.history

    def _run(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as error:
            self._failure = error

    async def _serve(self) -> None:
        fakes = self.fakes
        self._loop = asyncio.get_running_loop()
        plane_parts = PlaneParts(
            routes=fakes.routes, history=link_to(fakes.history), queue=fakes.queue, backend=fakes.backend, waiting=self._waiting
        )  # fmt: skip
        self.plane = DataPlane(self._settings, plane_parts)
        parts = ApplicationParts(
            plane=self.plane, verifier=FakeVerifier(), flask=hello_flask, follow_logs=no_follower, follow_build=no_follower,
            find_unready=lambda: None, start=lambda: None, stop=lambda: None,
        )  # fmt: skip
        application = Application(self._settings, replace(parts, **self._changes))
        if not self._fast_path:
            application.relays = None
        config = uvicorn.Config(application, log_config=None, timeout_graceful_shutdown=3, **FrontWorker.CONFIG_KWARGS)
        self._server = uvicorn.Server(config)
        task = asyncio.get_running_loop().create_task(self._server._serve([self._listener]))
        while not self._server.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        self._started.set()
        await task

    # --- a raw client ---

    def connect(self, timeout_sec: float = 30) -> "Client":
        return Client(self.port, timeout_sec)

    def raw(self, data: bytes, timeout_sec: float = 30) -> bytes:
        """Sends bytes; returns everything that arrives until the server closes the connection."""
        with self.connect(timeout_sec) as client:
            client.send(data)
            return client.rest()

    def call(self, target: str = "/", *, name: str = "f", method: str = "GET", head: str = "", body: bytes = b"") -> "Reply":
        """One call of a function on a new connection."""
        path = f"/fn/{NAMESPACE}/{name}{target}"
        length = f"content-length: {len(body)}\r\n" if body else ""
        with self.connect() as client:
            client.send(f"{method} {path} HTTP/1.1\r\nhost: sless.test\r\n{length}{head}\r\n".encode("latin-1") + body)
            return client.reply(head_only=method == "HEAD")


@dataclass
class Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class Client:
    def __init__(self, port: int, timeout_sec: float = 30) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout_sec)
        self._buffer = b""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def rest(self) -> bytes:
        """Everything until the server closes or resets the connection."""
        pieces = [self._buffer]
        try:
            while data := self.sock.recv(1 << 18):
                pieces.append(data)
        except ConnectionResetError:
            pass
        return b"".join(pieces)

    def until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        before, _, self._buffer = self._buffer.partition(mark)
        return before

    def head(self) -> tuple[int, list[tuple[str, str]]]:
        first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        match = re.match(r"HTTP/1\.1 (\d{3})", first)
        assert match, first
        return int(match[1]), [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]

    def reply(self, *, head_only: bool = False) -> Reply:
        status, headers = self.head()
        names = dict(headers)
        if head_only or status in (204, 304):
            body = b""
        elif names.get("transfer-encoding") == "chunked":
            body = self._chunks()
        elif "content-length" in names:
            body = self.exactly(int(names["content-length"]))
        else:
            body = self.rest()
        return Reply(status, headers, body)

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def some(self) -> bytes:
        """The bytes that have arrived, at least one."""
        if not self._buffer:
            self._more()
        data, self._buffer = self._buffer, b""
        return data

    def _chunks(self) -> bytes:
        whole = b""
        while size := int(self.until(b"\r\n"), 16):
            whole += self.exactly(size)
            assert self.exactly(2) == b"\r\n"
        assert self.exactly(2) == b"\r\n"
        return whole

    def _more(self) -> None:
        data = self.sock.recv(1 << 18)
        if not data:
            raise EOFError(self._buffer[:500])
        self._buffer += data


def until(holds: Callable[[], object], timeout_sec: float = 30) -> None:
    """Returns when `holds()` is true; fails after `timeout_sec`."""
    deadline, pause = time.monotonic() + timeout_sec, pauses()
    while not holds():
        assert time.monotonic() < deadline, f"the condition did not hold within {timeout_sec:.0f} s"
        time.sleep(next(pause))
