"""Runs code of sless in a child process, where it holds another interpreter lock and may run out of memory without harm; hides this
process's memory from children."""

import ctypes
import subprocess
import sys
from pathlib import Path

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


def was_too_much(done: "subprocess.CompletedProcess[bytes]") -> bool:
    """Whether the child was killed by a signal or ran out of memory because of its input. Any other exit code is a bug."""
    return done.returncode < 0 or b"MemoryError" in done.stderr


def hide_from_children() -> None:
    """Makes memory and environment of this process, and of those it forks, unreadable to other processes of the same user: no ptrace, no
    /proc/PID/environ, no core dump. Does not affect processes that it executes; root can still read everything."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
