"""The ASGI application: dispatch of requests, and lifespan."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from wsgiref.types import WSGIApplication

from sless import metrics
from sless.asgi import health
from sless.asgi.answers import answer_error
from sless.asgi.calls import Calls
from sless.asgi.console import is_console_call, rest_scope_of
from sless.asgi.contexts import FindContext, send_context
from sless.asgi.mount import Mount
from sless.asgi.overviews import Overviews, ReadOverview
from sless.asgi.paths import FoundPath, PathKind, path_of
from sless.asgi.sign_ins import FAILED, SignIns, is_refusal
from sless.asgi.streams import OpenFollower, Streams
from sless.asgi.types import Message, NamespaceChecker, Receive, Scope, Send, Verifier
from sless.config import Settings
from sless.domain.durations import Durations
from sless.errors import Code, SlessError
from sless.proxy.heads import Trust
from sless.proxy.hosts import function_hosts_of
from sless.proxy.peers import Peers
from sless.proxy.plane import DataPlane
from sless.proxy.relay import Relays
from sless.proxy.request import CallerGone

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationParts:
    """Dependencies that `app` injects. `start`, `drain` and `stop` (of schedulers, backend, store) run in a thread: `start` before the
    first call; `drain` when the server begins to stop, to end loops that make calls; `stop` after the last call, when the history is
    written. `afterwards` runs in a separate thread once the server is ready. `find_unready` returns why the server is not ready, or None.
    `find_context` is None if builders do not fetch contexts from this server."""

    plane: DataPlane
    verifier: Verifier
    flask: WSGIApplication
    follow_logs: OpenFollower
    follow_build: OpenFollower
    find_unready: Callable[[], str | None]
    start: Callable[[], None]
    stop: Callable[[], None]
    drain: Callable[[], None] = lambda: None
    afterwards: Callable[[], object] = lambda: None
    find_context: FindContext | None = None
    durations: Durations = field(default_factory=Durations)
    read_overview: ReadOverview | None = None
    """None if lists cannot be followed."""


class Application:
    """The ASGI application. Created in the worker process, after the fork."""

    def __init__(self, settings: Settings, parts: ApplicationParts) -> None:
        self.plane = parts.plane
        self.relays: Relays | None = parts.plane.relays
        """The fast path of calls, used directly by the server's protocol. None if all calls take the slow path."""
        self.peers = Peers(settings.max_connections_per_client, Trust(settings.trusted_proxies))
        """Connections per client, limited by the server's protocol."""
        self.hosts = function_hosts_of(settings)
        """Hosts of functions, used by the server's protocol."""
        self.durations = parts.durations
        """Limits of requests, used by the server's protocol."""
        self._parts = parts
        self._stopping = asyncio.Event()
        self._draining: asyncio.Future[None] | None = None
        # Separate pools, so that slow key sets and readiness do not delay each other.
        self._token_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="tokens")
        self._ready_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="readiness")
        self._calls = Calls(parts.plane.invocations, self._verify, parts.durations.body_sec)
        self._sign_ins = SignIns(Trust(settings.trusted_proxies))
        self._mount = Mount(parts.flask, settings, parts.plane.bodies, self._verify)
        self._streams = Streams(
            verify=self._verify, follow_logs=parts.follow_logs, follow_build=parts.follow_build, stopping=self._stopping
        )
        read = parts.read_overview
        self._overviews = Overviews(verify=self._verify, read=read, stopping=self._stopping) if read else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1003})

    def begin_shutdown(self) -> None:
        """Called when the server stops accepting connections: ends the streams, which would never end by themselves."""
        self._stopping.set()
        self._drain()

    def _drain(self) -> "asyncio.Future[None]":
        if self._draining is None:
            self._draining = asyncio.ensure_future(asyncio.to_thread(self._parts.drain))
        return self._draining

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_on(message: Message) -> None:
            nonlocal begun
            begun = True
            if path_kind is PathKind.FLASK and is_refusal(message):
                await self._sign_ins.failed(scope)
            await send(message)

        path_kind, status = PathKind.FLASK, 499
        try:
            if (misdirected := scope.get("state", {}).get("misdirected")) is not None:
                raise misdirected
            if is_console_call(scope):
                scope = rest_scope_of(scope)
            found = path_of(scope["method"], scope["raw_path"], scope["query_string"])
            path_kind = found.path_kind
            status = await self._serve(scope, receive, send_on, found)
        except CallerGone:
            pass
        except Exception as error:
            status = await self._failed(scope, send, error, begun=begun)
        metrics.HTTP.count(path_kind, status)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, found: FoundPath) -> int:
        match found.path_kind:
            case PathKind.CALL | PathKind.INVOKE:
                return await self._calls(scope, receive, send, found)
            case PathKind.LOGS | PathKind.BUILD:
                return await self._streams(scope, receive, send, found)
            case PathKind.OVERVIEW if self._overviews is not None:
                return await self._overviews(scope, receive, send, found)
            case PathKind.HEALTH:
                return await health.alive(scope, send)
            case PathKind.CONTEXT if self._parts.find_context is not None:
                return await send_context(scope, send, self._parts.find_context, found.name)
            case PathKind.READY:
                return await health.ready(scope, send, self._find_unready)
        return await self._mount(scope, receive, send)

    async def _failed(self, scope: Scope, send: Send, error: Exception, *, begun: bool) -> int:
        """Answers with an error. If an answer has begun, leaves it incomplete, and the server closes the connection."""
        if not isinstance(error, SlessError):
            _log.error("%s %s failed", scope["method"], scope["raw_path"].decode("latin-1"), exc_info=error)
            error = SlessError(Code.INTERNAL, "internal error; see the server's log")
        if error.code in FAILED:
            await self._sign_ins.failed(scope)
        if not begun:
            await answer_error(scope, send, error)
        return error.status

    async def _verify(self, authorization: str | None) -> NamespaceChecker:
        return await asyncio.get_running_loop().run_in_executor(self._token_threads, self._parts.verifier.verify, authorization)

    async def _find_unready(self) -> str | None:
        if not self.plane.routes.loaded:
            return "the routes have not been read yet"
        return await asyncio.get_running_loop().run_in_executor(self._ready_thread, self._parts.find_unready)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            # The plane first, because the first ticks of all loops would slow down reading the routes.
            await self.plane.start()
            await asyncio.to_thread(self._parts.start)
        except Exception as error:
            _log.exception("the server cannot start")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        threading.Thread(target=self._parts.afterwards, name="afterwards", daemon=True).start()
        await receive()
        self._stopping.set()
        try:
            await self._drain()
            await self.plane.stop()
            await asyncio.to_thread(self._parts.stop)
            self._streams.close()
            if self._overviews is not None:
                self._overviews.close()
            self._token_threads.shutdown(wait=False)
            self._ready_thread.shutdown(wait=False)
        except Exception as error:
            _log.exception("the server did not stop cleanly")
            await send({"type": "lifespan.shutdown.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})
