"""Reloads after a save: one thread detects changes, builds, starts an instance and shows the result."""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from sless.backend import LocalBackend
from sless.builder.dependencies import WrongManifest
from sless.builder.failures import import_message_of
from sless.builder.local import LocalBuilder, find_artifact, is_compiled
from sless.client.packing import PackingError, pack_folder
from sless.dev.folder import FolderCode, Watcher
from sless.dev.routes import EndedCalls, OneRoute
from sless.domain.exits import exit_words_of
from sless.domain.model import Invocation, LogLine
from sless.domain.ports import BuildSpec, Deployment, ObservedDeployment, Revision
from sless.errors import Code, SlessError
from sless.host.material import Material, MaterialKey, MaterialLost
from sless.host.rundir import remove_tree
from sless.ids import new_id
from sless.proxy.plane import DataPlane

_log = logging.getLogger(__name__)
ROUTE_SEC = 1.0
_COPIES_KEPT = 3
"""Unpacked copies of the folder to keep: the newest, and those whose instances may still handle calls."""
_CANNOT_IMPORT = exit_words_of(1)
"""Exit code of a runtime that could not import the handler (runtimes/README.md)."""


class Screen(Protocol):
    """Terminal output while a folder is served. All methods are called from one thread."""

    def note(self, text: str) -> None:
        """Progress: ready, changed, reloaded."""

    def problem(self, text: str) -> None:
        """Why calls cannot be served now; may contain several lines."""

    def build_line(self, text: str) -> None: ...

    def log_line(self, line: LogLine) -> None:
        """A log line of the function."""

    def call(self, invocation: Invocation) -> None:
        """A call that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadParts:
    folder: Path
    code: FolderCode
    material: Material
    builder: LocalBuilder
    backend: LocalBackend
    plane: DataPlane
    route: OneRoute
    ended: EndedCalls
    screen: Screen
    shown: Callable[[str], str]
    """Translates paths of a copy into those of the folder."""


class Reloads:
    """`revision` lacks version, code and artifact. `wake` and `take_lines` are called from other threads."""

    def __init__(self, revision: Revision, build_env: dict[str, str]) -> None:
        self._revision = revision
        self._build_env = build_env
        self._lines: queue.SimpleQueue[list[LogLine]] = queue.SimpleQueue()
        self._news = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._build: BuildSpec | None = None
        self._saved_at = time.time()
        self._running = False
        """Whether an instance of the newest save has become ready."""
        self._failed = ""
        self._reported = ""
        self._copies: deque[Path] = deque()

    @property
    def workload_id(self) -> str:
        return self._revision.workload_id

    def wake(self) -> None:
        self._news.set()

    def take_lines(self, lines: list[LogLine]) -> None:
        self._lines.put(lines)
        self._news.set()

    def start(self, parts: ReloadParts) -> None:
        self._parts = parts
        self._watcher = Watcher(parts.folder)
        self._thread = threading.Thread(target=self._run, name="reloads", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._news.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._news.wait(self._watcher.wait_sec() or 0.001)
            self._news.clear()
            try:
                self._turn()
            except Exception:
                _log.exception("reloading failed; the next save tries again")
        self._show_output()

    def _turn(self) -> None:
        self._show_output()
        try:
            changed = self._watcher.find_change()
            if changed is not None:
                self._take(changed)
        except PackingError as error:
            self._fail(str(error))
        self._follow_build()
        self._follow_instances()

    def _show_output(self) -> None:
        screen = self._parts.screen
        while not self._lines.empty():
            for line in self._lines.get():
                screen.log_line(replace(line, text=self._parts.shown(line.text)))
        self._parts.plane.recorder.flush()
        for invocation in self._parts.ended.take():
            screen.call(invocation)

    # --- a save ---------------------------------------------------------------------------------------------------------------------

    def _take(self, changed: list[str]) -> None:
        """Raises PackingError."""
        parts, first = self._parts, self._revision.version == 0
        key = parts.code.keep(pack_folder(parts.folder, compress=False).data)
        if key == self._revision.code_key and not self._failed:
            return
        if not first:
            parts.screen.note(f"{changed[0] if len(changed) == 1 else f'{len(changed)} files'} changed")
            self._saved_at = self._watcher.saved_at()
        self._cancel_build()
        self._revision = replace(self._revision, version=self._revision.version + 1, code_key=key, artifact="")
        self._running, self._failed, self._reported = False, "", ""
        spec = self._build_spec()
        try:
            artifact = find_artifact(parts.material, spec)
        except (WrongManifest, MaterialLost, OSError) as error:
            return self._fail(str(error))
        except SlessError as error:
            return self._fail(error.message)
        if artifact is not None:
            return self._apply(artifact)
        self._build = spec
        parts.builder.start(spec, self.wake)
        if not parts.route.serves():
            self._route(parts.route.block(Code.NOT_READY, f'function "{spec.name}" is being built'))

    def _build_spec(self) -> BuildSpec:
        revision = self._revision
        return BuildSpec(
            id=new_id(), workload_id=revision.workload_id, namespace=revision.namespace, name=revision.name, kind=revision.kind,
            version=revision.version, runtime=revision.runtime, entrypoint=revision.entrypoint, code_key=revision.code_key,
            build_env=self._build_env, env=revision.env, memory_mb=revision.memory_mb,
        )  # fmt: skip

    def _cancel_build(self) -> None:
        if self._build is not None:
            self._parts.builder.cancel(self._build.id)
            self._build = None

    def _follow_build(self) -> None:
        status = self._parts.builder.poll(self._build.id) if self._build is not None else None
        if status is None:
            return
        for line in status.lines:
            self._parts.screen.build_line(self._parts.shown(line))
        if status.ready is None:
            return
        self._cancel_build()
        if status.ready:
            self._apply(status.artifact)
        else:
            self._fail(status.message)

    def _apply(self, artifact: str) -> None:
        self._revision = replace(self._revision, artifact=artifact)
        self._remember_copies()
        self._parts.backend.apply(Deployment(revision=self._revision, replicas=1, generation=self._revision.version))
        observed = self._parts.backend.observe().get(self._revision.workload_id)
        self._route(self._parts.route.show(self._revision, observed.endpoints if observed else ()))

    # --- result of a save ------------------------------------------------------------------------------------------------------------

    def _follow_instances(self) -> None:
        """Updates the route, also during a build, when instances of the previous save still handle calls."""
        observed = self._parts.backend.observe().get(self._revision.workload_id)
        if observed is None or self._failed:
            return
        ready = observed.generation == self._revision.version
        if observed.failing and not self._running and self._build is None and not ready:
            return self._fail(self._reason_of(observed))
        if self._revision.version and self._build is None:
            self._route(self._parts.route.show(self._revision, observed.endpoints))
        if ready and not self._running:
            self._running = True
            took_ms = (time.time() - self._saved_at) * 1000
            self._parts.screen.note(f"{'reloaded' if self._revision.version > 1 else 'ready'} in {took_ms:.0f} ms")
        elif observed.message and observed.message != self._reported and self._running:
            self._parts.screen.problem(f"the instance has ended, starting another one: {observed.message}")
        self._reported = observed.message

    def _reason_of(self, observed: ObservedDeployment) -> str:
        reason, *tail = observed.message.splitlines()
        return import_message_of(self._revision.entrypoint, tail) if tail and reason == _CANNOT_IMPORT else observed.message

    def _fail(self, message: str) -> None:
        """Answers calls with the reason why the newest save cannot serve, until the next save."""
        parts = self._parts
        self._cancel_build()
        self._failed = parts.shown(message)
        parts.backend.remove(self._revision.workload_id)
        self._route(parts.route.block(Code.BUILD_FAILED, f'function "{self._revision.name}" cannot be loaded: {self._failed}'))
        # Other lines are from the tool or the handler and have already been shown.
        parts.screen.problem(f"{self._failed.partition(chr(10))[0]}; calls are answered with 503 until the next save")

    def _route(self, changed: bool) -> None:
        if changed:
            # Do this last, so that the next output on the terminal is about the next call.
            self._parts.plane.routes.sync(ROUTE_SEC)

    def _remember_copies(self) -> None:
        """Removes copies that no instance uses."""
        revision, material = self._revision, self._parts.material
        keys = [
            MaterialKey(code_key=revision.code_key, artifact=artifact, runtime=revision.runtime) for artifact in {"", revision.artifact}
        ]
        used = [material.ensure(key).code_dir.parent for key in keys]
        if is_compiled(revision.runtime):
            used.append(material.deps_dir(revision.artifact))
        for folder in used:
            if folder in self._copies:
                self._copies.remove(folder)
            self._copies.append(folder)
        while len(self._copies) > 2 * _COPIES_KEPT:
            remove_tree(self._copies.popleft())
