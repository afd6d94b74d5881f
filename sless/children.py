"""Runs code of sless in a child process, where it holds another interpreter lock and may run out of memory without harm; hides this
process's memory from children; ends it quickly."""

import contextlib
import ctypes
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

_PR_SET_DUMPABLE = 4
_NICE = 10
"""Priority of such work, lower than that of calls."""
_PARENT_OF_PACKAGE = Path(__file__).resolve().parents[1]


def run_child(module: str, given: bytes, timeout_sec: float) -> "subprocess.CompletedProcess[bytes]":
    """Runs `main()` of a module with `given` on stdin. The module may only import the standard library and sless. Blocks. Raises
    subprocess.TimeoutExpired."""
    code = f"import os, sys; os.nice({_NICE}); sys.path.insert(0, {str(_PARENT_OF_PACKAGE)!r}); from {module} import main; main()"
    return subprocess.run([sys.executable, "-E", "-S", "-c", code], input=given, capture_output=True, timeout=timeout_sec, check=False)


def command_of(module: str) -> list[str]:
    """The command that runs `main()` of a module, which may import everything that this process can."""
    path = [str(_PARENT_OF_PACKAGE), *sys.path]
    code = f"import sys; sys.path[:] = {path!r}; from {module} import main; main(); from sless.children import leave; leave(0)"
    return [sys.executable, "-E", "-S", "-c", code]


def leave(code: int) -> NoReturn:
    """Ends this process once its output is written, without freeing every object first: that takes a third of the time that imports took.
    Functions registered with `atexit` do not run, and threads are not waited for."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or its reader has left
            stream.flush()
    os._exit(code)


def was_too_much(done: "subprocess.CompletedProcess[bytes]") -> bool:
    """Whether the child was killed by a signal or ran out of memory because of its input. Any other exit code is a bug."""
    return done.returncode < 0 or b"MemoryError" in done.stderr


def hide_from_children() -> None:
    """Makes memory and environment of this process, and of those it forks, unreadable to other processes of the same user: no ptrace, no
    /proc/PID/environ, no core dump. Does not affect processes that it executes; root can still read everything."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
