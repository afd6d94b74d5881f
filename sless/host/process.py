"""Child processes, each in its own process group with a lifeline. One thread drains the pipes and reaps all of them."""

import contextlib
import fcntl
import heapq
import itertools
import logging
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sless.domain.output_rates import OutputRates
from sless.host.child import Child as Child
from sless.host.child import Launch as Launch
from sless.host.guard import start_guard
from sless.host.rundir import RunDir
from sless.host.sandbox import Sandbox
from sless.host.unprivileged import Unprivileged

_READ_BYTES = 64 * 1024
_MAX_LINE_BYTES = 128 * 1024
"""Runtimes cut lines at 16 KB, which JSON escapes can make six times as long. Longer lines did not come from a runtime; they are split."""
_LAST_WORDS_BYTES = 4 * 1024 * 1024
_log = logging.getLogger(__name__)


class Processes:
    """Starts children, in a sandbox or as another user if there is one, and serves them until `close`."""

    def __init__(self, run_dir: RunDir, sandbox: Sandbox | None = None, unprivileged: Unprivileged | None = None) -> None:
        self._run_dir = run_dir
        self._sandbox = sandbox
        self._unprivileged = unprivileged
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._guard: subprocess.Popen[bytes] | None = None
        self._guard_lock = threading.Lock()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_fd, selectors.EVENT_READ, None)
        self._arrived: deque[Child] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timers_lock = threading.Lock()
        self._order = itertools.count()
        self._output = OutputRates()
        """Rate limits of output. Beyond an owner's rate its pipes stay full for a moment, so that its processes wait when they print."""
        self._children: set[Child] = set()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="sless-children", daemon=True)
        self._thread.start()

    def start(self, launch: Launch) -> Child:
        """Raises OSError when the program cannot be started."""
        if self._closing:
            raise OSError("the server is stopping")
        command, options = self._command_of(launch), self._options_of(launch)
        self._ensure_guard()
        # Reopen it for each child, because flags such as O_NONBLOCK, which Node.js sets, would affect all children otherwise.
        lifeline = os.open(f"/proc/self/fd/{self._lifeline_read}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            popen = subprocess.Popen(
                command,
                cwd=launch.cwd,
                env={**launch.env, "SLESS_LIFELINE_FD": str(lifeline)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
                pass_fds=(lifeline,),
                **options,
            )
        finally:
            os.close(lifeline)
        child = Child(pid=popen.pid, _popen=popen, launch=launch, sandboxed=self._sandbox is not None)
        try:
            _take_pipes(popen, child.streams)
            child.pidfd = os.pidfd_open(popen.pid)
            self._run_dir.note_pid(popen.pid)
        except OSError:  # out of descriptors, or the disk is full: a child must not run unwatched
            child.reap()
            for descriptor in child.streams:
                os.close(descriptor)
            raise
        _offer_to_oom_killer(popen.pid)
        self._arrived.append(child)
        self._wake()
        return child

    @property
    def isolated(self) -> bool:
        """Whether children cannot read the files of the server's user."""
        return self._sandbox is not None or self._unprivileged is not None

    def _command_of(self, launch: Launch) -> tuple[str, ...]:
        if self._sandbox is None:
            return launch.argv
        if launch.access is None:
            raise ValueError(f"{launch.argv[0]} is started without saying what it may access")
        return self._sandbox.command_of(launch.argv, launch.cwd, launch.access)

    def _options_of(self, launch: Launch) -> dict[str, Any]:
        if self._unprivileged is None:
            return {}
        if launch.access is None:
            raise ValueError(f"{launch.argv[0]} is started without saying what it may access")
        self._unprivileged.admit(launch.access)
        return self._unprivileged.options()

    def call_later(self, delay_sec: float, call: Callable[[], None]) -> None:
        """Calls it once, from the thread of all children. Cannot be cancelled, so the callee has to check whether it is still needed."""
        with self._timers_lock:
            heapq.heappush(self._timers, (time.monotonic() + delay_sec, next(self._order), call))
        self._wake()

    def close(self) -> None:
        """Kills all children and ends the thread."""
        self._closing = True
        for child in [*self._children, *self._arrived]:
            child.signal_group(signal.SIGKILL)
        self._wake()
        self._thread.join(timeout=10)
        self._end_guard()
        for descriptor in (self._wake_fd, self._lifeline_read):
            os.close(descriptor)
        self._selector.close()

    def _ensure_guard(self) -> None:
        with self._guard_lock:
            if self._guard is None or self._guard.poll() is not None:
                self._guard = start_guard(self._run_dir.path, self._lifeline_read)

    def _end_guard(self) -> None:
        os.close(self._lifeline_write)
        if self._guard is not None:
            try:
                self._guard.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._guard.kill()
                self._guard.wait()

    def _wake(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            os.eventfd_write(self._wake_fd, 1)

    def _serve(self) -> None:
        while not (self._closing and not self._children and not self._arrived):
            try:
                self._serve_once()
            except Exception:
                _log.exception("serving child processes failed")

    def _serve_once(self) -> None:
        for key, _ in self._selector.select(self._run_timers()):
            if key.data is None:
                os.eventfd_read(self._wake_fd)
            elif key.fd == key.data.pidfd:
                self._end(key.data)
            elif key.fd in key.data.streams:
                self._read_within_rate(key.data, key.fd)
        while self._arrived:
            child = self._arrived.popleft()
            self._children.add(child)
            for descriptor in (*child.streams, child.pidfd):
                self._selector.register(descriptor, selectors.EVENT_READ, child)

    def _run_timers(self) -> float | None:
        """Runs due timers. Returns the seconds until the next one, None if there is none."""
        while True:
            with self._timers_lock:
                if not self._timers:
                    return None
                left = self._timers[0][0] - time.monotonic()
                if left > 0:
                    return left
                call = heapq.heappop(self._timers)[2]
            call()

    def _read_within_rate(self, child: Child, descriptor: int) -> None:
        size_bytes = self._read(child, descriptor)
        rest_sec = self._output.spend(child.launch.owner or str(child.pid), size_bytes, time.monotonic())
        if rest_sec > 0 and descriptor in child.streams:
            self._selector.unregister(descriptor)
            child.resting.add(descriptor)
            self.call_later(rest_sec, lambda: self._resume(child, descriptor))

    def _resume(self, child: Child, descriptor: int) -> None:
        if descriptor in child.resting and descriptor in child.streams:
            child.resting.discard(descriptor)
            self._selector.register(descriptor, selectors.EVENT_READ, child)

    def _read(self, child: Child, descriptor: int) -> int:
        """Reads once and delivers complete lines. Returns the bytes read; 0 at EOF or when nothing is available."""
        try:
            chunk = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return 0
        stream = child.streams[descriptor]
        if not chunk:
            self._close_stream(child, descriptor)
            return 0
        *lines, rest = (child.partial.get(stream, b"") + chunk).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES:
            lines, rest = [*lines, rest], b""
        child.partial[stream] = rest
        if lines:
            child.launch.on_lines(stream, lines)
        return len(chunk)

    def _close_stream(self, child: Child, descriptor: int) -> None:
        stream = child.streams.pop(descriptor)
        if descriptor in child.resting:
            child.resting.discard(descriptor)
        else:
            self._selector.unregister(descriptor)
        os.close(descriptor)
        if rest := child.partial.pop(stream, b""):
            child.launch.on_lines(stream, [rest])

    def _end(self, child: Child) -> None:
        code = child.reap()
        for descriptor in list(child.streams):
            left = _LAST_WORDS_BYTES
            while left > 0 and (count := self._read(child, descriptor)):
                left -= count
            if descriptor in child.streams:
                self._close_stream(child, descriptor)
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        self._children.discard(child)
        self._run_dir.forget_pid(child.pid)
        child.launch.on_exit(code)


def _take_pipes(popen: "subprocess.Popen[bytes]", streams: dict[int, str]) -> None:
    """Replaces Popen's pipe objects, which buffer and warn when not closed, with plain descriptors."""
    for pipe, stream in ((popen.stdout, "stdout"), (popen.stderr, "stderr")):
        assert pipe is not None
        with pipe:
            descriptor = os.dup(pipe.fileno())
        streams[descriptor] = stream
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK)


def _offer_to_oom_killer(pid: int) -> None:
    """Makes the kernel kill a function rather than the server when memory runs out."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("700")
