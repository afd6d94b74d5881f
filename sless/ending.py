"""Ends a process quickly."""

import contextlib
import os
import sys
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """Ends this process once its output is written, without freeing every object first: that takes a third of the time that imports took.
    Functions registered with `atexit` do not run, and threads are not waited for."""
    if logging := sys.modules.get("logging"):
        logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or its reader has left
            stream.flush()
    os._exit(code)
