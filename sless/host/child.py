"""A description of a child to start, and a started child. `process` starts and serves them."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sless.host.sandbox import Access, code_of_sandboxed, inner_processes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A child to start. `on_lines(stream, lines)` and `on_exit(returncode)` are called from the thread of all children and must return
    fast.

    `access` is required with a sandbox and unused without one. `returncode` is negative for a signal. When `on_exit` is called, all lines
    have been delivered and the whole group is dead.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: dict[str, str]
    on_lines: Callable[[str, Sequence[bytes]], None]
    on_exit: Callable[[int], None]
    owner: str = ""
    """The namespace that owns the child: children of one owner share its rate of output (`domain.output_rates`)."""
    access: Access | None = None


@dataclass(slots=True, eq=False)
class Child:
    pid: int
    _popen: "subprocess.Popen[bytes]"
    launch: Launch
    streams: dict[int, str] = field(default_factory=dict)
    """Open pipe descriptors → "stdout" or "stderr"."""
    partial: dict[str, bytes] = field(default_factory=dict)
    resting: set[int] = field(default_factory=set)
    """Descriptors that are paused: not read at the moment."""
    pidfd: int = -1
    sandboxed: bool = False
    reaped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def signal_group(self, number: int) -> None:
        """Signals every process of the group, unless it has ended."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self.reaped:
                return
            if self.sandboxed and number != signal.SIGKILL and (inner := inner_processes_of(self.pid)):
                # A signal to the sandbox itself would end it at once, with everything in it.
                for pid in inner:
                    os.kill(pid, number)
            else:
                os.killpg(self.pid, signal.SIGKILL if self.sandboxed else number)

    def find_exit(self) -> int | None:
        """The return code if the leader has ended, even before it was reaped."""
        with self._lock:
            if self.reaped:
                return self._code_of(self._popen.returncode)
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return self._code_of(found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)

    def reap(self) -> int:
        """Kills the rest of the group, then reaps the leader. The zombie keeps its pid, so no unrelated process can be hit."""
        with self._lock:
            if not self.reaped:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
            code = self._code_of(self._popen.wait())
            self.reaped = True
        return code

    def _code_of(self, code: int) -> int:
        return code_of_sandboxed(code) if self.sandboxed else code
