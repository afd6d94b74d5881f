"""A running build, with its log, child process, deadline and cancellation."""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sless.builder.failures import TAIL_LINES, BuildFailed, masking_of, plain_of
from sless.domain.ports import BuildSpec, BuildStatus
from sless.host.process import Child, Launch, Processes
from sless.host.sandbox import Access

MAX_LOG_LINES = 10_000
MAX_LOG_CHARS = 4 * 2**20
"""Limit of a build log, which is shown as a whole; an installer may print lines of any length."""
MAX_LINE_CHARS = 8_000
_MAX_TAIL_CHARS = 2_000
"""Limit of a line in a message; the log has the whole line."""
_TERM_SEC = 2.0
_POLL_SEC = 0.1


class BuildCancelled(Exception):
    """The build was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`limit_sec` applies to this command, in addition to the build's deadline; exceeding it raises BuildFailed with `limit_message`.
    `on_lines` receives the output instead of the log; see host.process.Launch."""

    argv: tuple[str, ...]
    cwd: Path
    env: dict[str, str]
    limit_sec: float | None = None
    limit_message: str = ""
    on_started: Callable[[Child], None] = lambda child: None
    on_lines: Callable[[str, Sequence[bytes]], None] | None = None
    access: Access | None = None


class Work:
    """The loop of builds calls `poll` and `cancel`, the build's thread the rest; output arrives in the thread of the child processes."""

    def __init__(self, spec: BuildSpec, changed: Callable[[], None], timeout_sec: int) -> None:
        self.spec = spec
        self._changed = changed
        self._timeout_sec = timeout_sec
        self._deadline = time.monotonic() + timeout_sec
        self._masking = masking_of(spec.build_env)
        self._status = BuildStatus(ready=None)
        self._artifact = ""
        self._pending: list[str] = []
        self._logged = self._logged_chars = 0
        self._log_full = False
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._shortened: list[tuple[str, str]] = []
        self._importing = False
        self._cancelled = threading.Event()
        self._child: Child | None = None
        self._lock = threading.Lock()

    def poll(self) -> BuildStatus:
        with self._lock:
            lines, self._pending = tuple(self._pending), []
            status, importing, artifact = self._status, self._importing, self._status.artifact or self._artifact
        return BuildStatus(ready=status.ready, message=status.message, artifact=artifact, lines=lines, importing=importing)

    def produce(self, artifact: str) -> None:
        """Call this before anything stores the artifact elsewhere, so that it can be removed with the version even if the build fails."""
        with self._lock:
            self._artifact = artifact
        self._changed()

    def begin_import(self) -> None:
        """Call this when only the trial import is left."""
        with self._lock:
            self._importing = True
        self._changed()

    def cancel(self) -> None:
        self._cancelled.set()
        with self._lock:
            if self._child is not None:
                self._child.signal_group(signal.SIGKILL)

    def log(self, *lines: str) -> None:
        with self._lock:
            for line in lines:
                shown = self._shown(line)
                self._tail.append(shown[:_MAX_TAIL_CHARS])
                self._keep(shown if len(shown) <= MAX_LINE_CHARS else shown[:MAX_LINE_CHARS] + " …[cut]")
        self._changed()

    def _keep(self, line: str) -> None:
        self._logged += 1
        self._logged_chars += len(line)
        if self._log_full:
            return
        if self._logged > MAX_LOG_LINES or self._logged_chars > MAX_LOG_CHARS:
            self._log_full = True
            line = f"[the build log exceeds {MAX_LOG_LINES} lines or {MAX_LOG_CHARS // 2**20} MB: the rest is dropped]"
        self._pending.append(line)

    def shorten(self, folder: Path, name: str) -> None:
        """Shows the path of this folder as `name` in the log from now on."""
        self._shortened.append((str(folder), name))

    def tail(self) -> list[str]:
        """The last lines of the last command."""
        with self._lock:
            return list(self._tail)

    def note(self, message: str) -> None:
        """Stores why the build is waiting; "" if it is not."""
        with self._lock:
            self._status = BuildStatus(ready=None, message=self._masking.masked(message))
        self._changed()

    def end(self, *, ready: bool, message: str = "", artifact: str = "") -> None:
        with self._lock:
            self._status = BuildStatus(ready=ready, message=self._masking.masked(message), artifact=artifact)
        self._changed()

    def wait_for(self, lock: threading.Lock) -> bool:
        """Acquires a lock that another build may hold for minutes. Returns whether it had to wait."""
        if lock.acquire(blocking=False):
            return False
        self.log("waiting for another build that installs the same dependencies")
        while not lock.acquire(timeout=_POLL_SEC):
            self.check_time()
        return True

    def check_time(self) -> None:
        """Raises BuildCancelled, BuildFailed."""
        if self._cancelled.is_set():
            raise BuildCancelled
        if time.monotonic() >= self._deadline:
            raise BuildFailed(f"build timed out after {self._timeout_sec} s")

    def begin(self) -> None:
        """Clears `tail` before the next command."""
        with self._lock:
            self._tail.clear()

    @property
    def cancelled(self) -> threading.Event:
        return self._cancelled

    def run(self, processes: Processes, command: Command) -> int:
        """Returns the exit code. Raises BuildCancelled, BuildFailed (timed out), OSError (cannot be started)."""
        self.check_time()
        self.begin()
        ended = threading.Event()
        codes: list[int] = []

        def on_exit(code: int) -> None:
            codes.append(code)
            ended.set()

        launch = Launch(
            argv=command.argv, cwd=command.cwd, env=command.env, on_lines=command.on_lines or self._take, on_exit=on_exit,
            access=command.access,
        )  # fmt: skip
        child = processes.start(launch)
        with self._lock:
            self._child = child
            if self._cancelled.is_set():  # cancelled just before the child was stored
                child.signal_group(signal.SIGKILL)
        command.on_started(child)
        try:
            self._await(command, child, ended)
        finally:
            if not ended.is_set():
                child.signal_group(signal.SIGTERM)
                if not ended.wait(_TERM_SEC):
                    child.signal_group(signal.SIGKILL)
                    ended.wait(_TERM_SEC)
            with self._lock:
                self._child = None
        return codes[0]

    def _await(self, command: Command, child: Child, ended: threading.Event) -> None:
        began = time.monotonic()
        while True:
            limit = self._deadline if command.limit_sec is None else min(self._deadline, began + command.limit_sec)
            if ended.wait(max(0.0, limit - time.monotonic())) and not self._cancelled.is_set():
                return
            self.check_time()
            raise BuildFailed(command.limit_message)

    def _take(self, _stream: str, raw_lines: Sequence[bytes]) -> None:
        if lines := [line for raw in raw_lines if (line := plain_of(raw))]:
            self.log(*lines)

    def _shown(self, line: str) -> str:
        for folder, name in self._shortened:
            line = line.replace(folder, name)
        return self._masking.masked(line)
