"""Ends every container when the stand-in ends, even if killed: a process that reads group ids from stdin until EOF.

`+123`: a container's process group has started, `-123`: it has ended. At EOF it kills the remaining groups and removes FOLDER (argument).
"""

import os
import shutil
import signal
import sys
import time

REMOVE_SEC = 10.0
PAUSE_SEC = 0.05


def main(folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        number = int(line[1:])
        if line[0] == "+":
            groups.add(number)
        else:
            groups.discard(number)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
    remove(folder)


def remove(folder: str) -> None:
    """Again if a process of a container, which takes a moment to die or is in another group, creates a file meanwhile."""
    deadline = time.monotonic() + REMOVE_SEC
    shutil.rmtree(folder, ignore_errors=True)
    while os.path.lexists(folder) and time.monotonic() < deadline:
        time.sleep(PAUSE_SEC)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
