"""Ends every container when the stand-in ends, even if killed: a process that reads group ids from stdin until EOF.

`+123`: a container's process group has started, `-123`: it has ended. At EOF it kills the remaining groups and removes FOLDER (argument).
"""

import os
import shutil
import signal
import sys


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
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
