"""Ends a process in which every call fails because it has used up its descriptors, processes, threads or memory. sless replaces it."""

import os
import sys
from _signal import SIGTERM
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM
from time import monotonic

FAILED_CALLS = 10
FAILING_SEC = 1.0
"""Both together: calls that only wait for others to close their files recover sooner."""
USED_UP = frozenset((EAGAIN, EMFILE, ENFILE, ENOMEM))
CAUSES_EXAMINED = 10


def is_exhaustion(error):
    """Whether a handler's exception says that the process cannot get what most calls need. HTTP clients raise their own exceptions for it,
    so those that it was raised from or while handling count as well."""
    if says_used_up(error):
        return True
    for _ in range(CAUSES_EXAMINED):
        error = error.__context__ if error.__cause__ is None else error.__cause__
        if error is None:
            return False
        # A library that waits for a socket may have caught EAGAIN before it gave up.
        if says_used_up(error) and getattr(error, "errno", None) != EAGAIN:
            return True
    return False


def says_used_up(error):
    if isinstance(error, OSError):
        return error.errno in USED_UP
    return type(error) is RuntimeError and str(error) == "can't start new thread"


def end_process():
    os.kill(os.getpid(), SIGTERM)


class Exhaustion:
    """`failed`: calls that failed in this way since the last one that did not."""

    def __init__(self, end=end_process, clock=monotonic):
        self.failed = 0
        self._end = end
        self._clock = clock
        self._since = 0.0

    def note(self, answer):
        """Take the answer of a call whose handler raised."""
        if not answer.exhausted:
            self.failed = 0
            return
        if not self.failed:
            self._since = self._clock()
        self.failed += 1
        if self._end is None or self.failed < FAILED_CALLS or self._clock() - self._since < FAILING_SEC:
            return
        print(f"the last {self.failed} calls failed with {answer.error!r}: this instance ends and is replaced", file=sys.stderr)
        end, self._end = self._end, None
        end()
