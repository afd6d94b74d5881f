"""Ends every container when the stand-in is gone, however it went: a process that reads group ids from its stdin until EOF.

`+123` a container's process group has begun, `-123` it has ended. At EOF those that are left are killed and the folder (argument) removed.
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
