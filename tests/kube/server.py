"""The stand-in's process: `python -m tests.kube.server FOLDER`. Serves the API on a port of 127.0.0.1 and the control interface on another,
writes both ports as one JSON line to stdout, and exits at EOF on stdin."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import IO, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from sless.host.memory import MemoryWatch
from tests.kube.api import Answer, Api, Call
from tests.kube.control import Control
from tests.kube.controllers import Controllers
from tests.kube.faults import Faults
from tests.kube.images import known_images
from tests.kube.kinds import kind_of
from tests.kube.kubelet import NODE_OBJECT, Kubelet
from tests.kube.pods import Node
from tests.kube.processes import Groups
from tests.kube.recorder import Recorder
from tests.kube.registry import CONTROLLER, KUBELET, Registry

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Answering = Callable[[Call], Awaitable[Answer]]
FIRST_NAMESPACES = ("default", "kube-system")


def application(answer: Answering) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Wraps a function as an ASGI application."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        call = Call(
            method=scope["method"],
            path=scope["path"],
            query=dict(urllib.parse.parse_qsl(scope["query_string"].decode(), keep_blank_values=True)),
            headers={name.decode().lower(): value.decode() for name, value in scope["headers"]},
            body=await _body_of(receive),
        )
        result = await answer(call)
        if hasattr(result.body, "__aiter__"):
            await _stream(result, receive, send)
            return
        plain = isinstance(result.body, bytes | str)
        data = result.body if isinstance(result.body, bytes) else result.body.encode() if plain else json.dumps(result.body).encode()
        await send(_head(result, "text/plain" if plain else "application/json", len(data)))
        await send({"type": "http.response.body", "body": data})

    return app


def _head(answer: Answer, content_type: str, length: int | None) -> dict[str, Any]:
    headers = [("content-type", content_type), *answer.headers]
    if length is not None:
        headers.append(("content-length", str(length)))
    return {"type": "http.response.start", "status": answer.status, "headers": [(key.encode(), value.encode()) for key, value in headers]}


async def _body_of(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _stream(answer: Answer, receive: Receive, send: Send) -> None:
    await send(_head(answer, "application/json", None))
    leaving = asyncio.create_task(_until_left(receive))
    sending = asyncio.create_task(_send_all(answer.body, send))
    await asyncio.wait([leaving, sending], return_when=asyncio.FIRST_COMPLETED)
    for task in (leaving, sending):
        task.cancel()
    await asyncio.gather(leaving, sending, return_exceptions=True)
    await answer.body.aclose()


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_all(chunks: AsyncIterator[bytes], send: Send) -> None:
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class Door:
    """A listening port that can be shut: it then refuses new connections and aborts open ones."""

    def __init__(self, answer: Answering) -> None:
        config = uvicorn.Config(
            application(answer), loop="asyncio", http="httptools", access_log=False, log_level="critical", lifespan="off"
        )
        config.load()
        self._config, self._state = config, ServerState()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> None:
        make = lambda: HttpToolsProtocol(config=self._config, server_state=self._state, app_state={})  # noqa: E731
        self._server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", self.port, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._state.connections):
            connection.transport.abort()

    async def away(self, seconds: float) -> None:
        self.shut()
        await asyncio.sleep(seconds)
        await self.open()


async def serve(folder: Path, reaper: IO[bytes]) -> None:
    watcher = asyncio.PidfdChildWatcher()  # the default starts a thread per process
    watcher.attach_loop(asyncio.get_running_loop())
    asyncio.set_child_watcher(watcher)
    registry, recorder, faults = Registry(), Recorder(), Faults()
    memory = MemoryWatch()
    controllers = Controllers(registry, faults, recorder.failures.append)
    node = Node(
        registry=registry,
        images=known_images(),
        groups=Groups(reaper),
        memory=memory,
        folder=folder / "pods",
        failed=recorder.failures.append,
    )
    kubelet = Kubelet(node, recorder.failures.append)

    def first_objects() -> None:
        registry.create(kind_of("Node"), "", NODE_OBJECT, KUBELET)
        for name in FIRST_NAMESPACES:
            registry.create(kind_of("Namespace"), "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, CONTROLLER)

    first_objects()
    api = Api(registry, recorder, faults, kubelet.read_log, {})
    door = Door(api.answer)
    control = Control(api=api, controllers=controllers, kubelet=kubelet, door=door, first_objects=first_objects)
    own_door = Door(control.answer)
    await door.open()
    await own_door.open()
    print(json.dumps({"port": door.port, "control": own_door.port}), flush=True)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    asyncio.get_running_loop().add_reader(0, lambda: os.read(0, 1) or stopped.set())
    await stopped.wait()
    kubelet.reset()
    memory.close()


def main(folder: Path) -> None:
    command = [sys.executable, "-S", "-E", str(Path(__file__).with_name("reaper.py")), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as reaper:
        assert reaper.stdin is not None
        asyncio.run(serve(folder, reaper.stdin))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(Path(sys.argv[1]))
