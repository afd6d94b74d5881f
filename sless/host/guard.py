"""Ends the children of a server that was killed. A separate process: `guard.main` waits for the end of standard input, which comes when the
server ends, then kills the processes still recorded in the server's folder (argv[1]). Runtimes end by themselves, but commands of a build
do not, nor do children that are stopped or busy."""

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
