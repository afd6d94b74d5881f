"""Ends the children of a server that was killed. A separate process: `guard.main` waits on standard input, which ends with the server, then
kills the processes that the server's folder (argv[1]) still names. Runtimes end by themselves, but commands of a build do not, nor do
children that are stopped or busy."""

import subprocess
import sys
from pathlib import Path

from sless.host.rundir import end_left_behind

_PARENT_OF_PACKAGE = Path(__file__).resolve().parents[2]


def start_guard(folder: Path, lifeline: int) -> "subprocess.Popen[bytes]":
    """`lifeline`: read end of a pipe that only this process holds open for writing."""
    code = f"import sys; sys.path.insert(0, {str(_PARENT_OF_PACKAGE)!r}); from sless.host.guard import main; main()"
    return subprocess.Popen(
        [sys.executable, "-E", "-S", "-c", code, str(folder)],
        stdin=lifeline, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", env={}, start_new_session=True,
    )  # fmt: skip


def main() -> None:
    sys.stdin.buffer.read()
    end_left_behind(Path(sys.argv[1]))
