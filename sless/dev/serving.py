"""Assembles the parts for one folder and serves it until stopped."""

import json
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from wsgiref.types import StartResponse, WSGIEnvironment

from sless.asgi import Application, ApplicationParts, Follower, FollowRequest
from sless.backend import LocalBackend, make_local_backend
from sless.builder.local import LocalBuilder, is_compiled, make_local_builder
from sless.config import Settings
from sless.dev.folder import FolderCode
from sless.dev.reloads import ReloadParts, Reloads, Screen
from sless.dev.routes import NAMESPACE, EndedCalls, NoQueue, OneRoute
from sless.domain.limits import MOST
from sless.domain.model import Kind, WorkloadSpec
from sless.domain.ports import Revision
from sless.errors import Code, NotFound, SlessError
from sless.host.material import Material
from sless.host.rundir import remove_tree
from sless.ids import new_call_id, new_id
from sless.proxy.history_sink import link_to
from sless.proxy.plane import DataPlane, PlaneParts
from sless.server.here import serve_here

_CLOSE_SEC = 2.0
_UNUSED_SEC = 30 * 86400.0
"""Installed dependencies unused for this long are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevRequest:
    """`spec` has a runtime and an entrypoint. `cache_dir` keeps installed dependencies and the compiler's cache between runs."""

    folder: Path
    name: str
    spec: WorkloadSpec
    cache_dir: Path
    build_env: dict[str, str] = field(default_factory=dict)


def serve_folder(request: DevRequest, listener: socket.socket, screen: Screen) -> None:
    """Blocks until a signal, then removes everything but the cache. Raises ConfigError."""
    with _workshop(request) as (data_dir, deps):
        settings = Settings(data_dir=data_dir, local_sandbox="none", port=listener.getsockname()[1], limit_calls_per_minute=MOST)
        dev = _Dev(request, settings, Material(data_dir, code := FolderCode(), deps=deps))
        try:
            serve_here(dev.application(code, screen), listener)
        finally:
            dev.stop()


@contextmanager
def _workshop(request: DevRequest) -> Iterator[tuple[Path, Path]]:
    """A temporary folder for copies of the code, and the folder of installed dependencies. With a compiled language, each save makes a
    program, kept as long as its copy; the compiler's cache is kept between runs."""
    data_dir = Path(tempfile.mkdtemp(prefix="sless-dev-")).resolve()
    compiled = is_compiled(request.spec.runtime or "")
    kept = request.cache_dir / ("go" if compiled else "deps")
    try:
        kept.mkdir(parents=True, exist_ok=True, mode=0o700)
        if compiled:
            (data_dir / "go").symlink_to(kept)
        else:
            _remove_unused(kept)
        yield data_dir, data_dir / "deps" if compiled else kept
    finally:
        remove_tree(data_dir)
        for folder in (kept, request.cache_dir):
            try:
                folder.rmdir()
            except OSError:  # not empty
                break


def _remove_unused(deps: Path) -> None:
    for folder in deps.iterdir():
        if time.time() - folder.stat().st_mtime > _UNUSED_SEC:
            remove_tree(folder)


class _Dev:
    """All parts, which refer to each other; `application` closes the circle."""

    def __init__(self, request: DevRequest, settings: Settings, material: Material) -> None:
        self._request = request
        self._settings = settings
        self._material = material
        self._reloads = Reloads(_revision_of(request), request.build_env)
        self._backend: LocalBackend = make_local_backend(settings, material, self._reloads.take_lines, self._reloads.wake, own_code=True)
        self._builder: LocalBuilder = make_local_builder(settings, material, again=True)
        self._stopped = False

    def application(self, code: FolderCode, screen: Screen) -> Application:
        route, ended = OneRoute(self._reloads.workload_id, self._request.name), EndedCalls()
        plane = DataPlane(self._settings, PlaneParts(routes=route, history=link_to(ended), queue=NoQueue(), backend=self._backend))
        parts = ReloadParts(
            folder=self._request.folder, code=code, material=self._material, builder=self._builder, backend=self._backend, plane=plane,
            route=route, ended=ended, screen=screen, shown=_shown_of(self._settings.data_dir, self._request.folder),
        )  # fmt: skip
        return Application(
            self._settings,
            ApplicationParts(
                plane=plane,
                verifier=_OpenDoor(),
                flask=_Nothing(self._request.name),
                follow_logs=_cannot_follow,
                follow_build=_cannot_follow,
                find_unready=lambda: None,
                start=lambda: self._reloads.start(parts),
                stop=self.stop,
            ),
        )

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        self._reloads.stop()
        self._builder.close()
        self._backend.close(_CLOSE_SEC)


def _revision_of(request: DevRequest) -> Revision:
    spec = request.spec
    assert spec.runtime and spec.entrypoint
    return Revision(
        workload_id=new_id(), namespace=NAMESPACE, name=request.name, kind=Kind.FUNCTION, version=0, runtime=spec.runtime,
        entrypoint=spec.entrypoint, code_key="", artifact="", memory_mb=spec.memory_mb, timeout_sec=spec.timeout_sec,
        concurrency=spec.concurrency, event_format=spec.event_format, env=spec.env_vars,
    )  # fmt: skip


def _shown_of(data_dir: Path, folder: Path) -> Callable[[str], str]:
    copies = re.compile(re.escape(str(data_dir)) + r"/versions/[^/]+/function")
    return lambda text: copies.sub(lambda found: str(folder), text)


class _OpenDoor:
    """asgi.types.Verifier that accepts everyone who can reach the loopback interface."""

    expires_at = float("inf")

    def verify(self, authorization: str | None) -> "_OpenDoor":
        return self

    def check(self, namespace: str) -> None:
        pass


class _Nothing:
    """Replaces the REST interface. Its answer says what is served instead."""

    def __init__(self, name: str) -> None:
        self._text = f"this is sless dev: only /fn/{NAMESPACE}/{name} is served, without the REST interface and the console"

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        body = json.dumps(SlessError(Code.NOT_FOUND, self._text).body(new_call_id())).encode()
        start_response("404 Not Found", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]


def _cannot_follow(request: FollowRequest) -> Follower:
    raise NotFound(request.kind, request.name)
