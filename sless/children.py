"""Runs code of sless in a child process, where it holds another interpreter lock and may run out of memory without harm; hides this
process's memory from children."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from sless.ending import leave

_PR_SET_DUMPABLE = 4
_NICE = 10
"""Priority of such work, lower than that of calls."""
_PYTHON = (sys.executable, "-I", "-S", "-c")
"""Isolated: the current folder, which may be a user's with a `json.py`, is not searched for modules."""
_PARENT_OF_PACKAGE = Path(__file__).resolve().parents[1]


def run_child(
    module: str, given: bytes, timeout_sec: float, *, packages: bool = False, urgent: bool = False
) -> "subprocess.CompletedProcess[bytes]":
    """Runs `main()` of a module with `given` on stdin. The module may import the standard library and sless, with `packages` everything
    that this process can, which starts slower. Work that a call waits for is `urgent`: it has the priority of calls. Blocks. Raises
    subprocess.TimeoutExpired."""
    nice = 0 if urgent else _NICE
    if packages:
        command = command_of(module, nice=nice)
    else:
        code = f"import os, sys; os.nice({nice}); sys.path.insert(0, {str(_PARENT_OF_PACKAGE)!r}); from {module} import main; main()"
        command = [*_PYTHON, code]
    return subprocess.run(command, input=given, capture_output=True, timeout=timeout_sec, check=False)


def command_of(module: str, *, nice: int = 0) -> list[str]:
    """The command that runs `main()` of a module, which may import everything that this process can."""
    path = [str(_PARENT_OF_PACKAGE), *sys.path]
    start = f"import os, sys; os.nice({nice}); sys.path[:] = {path!r}; from {module} import main; main()"
    return [*_PYTHON, f"{start}; from sless.ending import leave; leave(0)"]


class ForkedChild:
    """A child from `fork_child`, with members of `subprocess.Popen`."""

    def __init__(self, pid: int, stdout_fd: int) -> None:
        self.pid = pid
        self.stdout = os.fdopen(stdout_fd, "rb", buffering=0)
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        deadline, pause_sec = time.monotonic() + (timeout or 0), 0.0005
        while self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif timeout is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"child {self.pid}", timeout)
            else:
                time.sleep(pause_sec := min(2 * pause_sec, 0.05))
        return self._code

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)


def fork_child(main: Callable[[], None], stdin_fd: int) -> ForkedChild | None:
    """Runs `main` in a copy of this process, which costs none of the imports of a new interpreter, in a process group of its own. The child
    has nothing open but this stdin, which the caller closes, a pipe as stdout, and stderr. Returns None if this process has other threads:
    they might hold locks, which no thread of the child would ever release."""
    if len(os.listdir("/proc/self/task")) > 1:
        return None
    our_in, child_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run_forked(main, stdin_fd, child_out)
    os.close(child_out)
    return ForkedChild(pid, our_in)


def _run_forked(main: Callable[[], None], child_in: int, child_out: int) -> NoReturn:
    """Never returns into the copied stack, whose objects own descriptors that are closed here."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        os.dup2(child_in, 0)
        os.dup2(child_out, 1)
        for name in os.listdir("/proc/self/fd"):  # among them listening sockets, locked files, the other ends of the pipes
            if int(name) > 2:
                os.closerange(int(name), int(name) + 1)  # unlike `close`, ignores the descriptor of this listing
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        gc.freeze()  # the collector does not write to pages that both processes share
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    leave(code)


def was_too_much(done: "subprocess.CompletedProcess[bytes]") -> bool:
    """Whether the child was killed by a signal or ran out of memory because of its input. Any other exit code is a bug."""
    return done.returncode < 0 or b"MemoryError" in done.stderr


def hide_from_children() -> None:
    """Makes memory and environment of this process, and of those it forks, unreadable to other processes of the same user: no ptrace, no
    /proc/PID/environ, no core dump. Does not affect processes that it executes; root can still read everything."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
