"""SIGTERM and SIGINT: the user's handlers run first, then the runtime's."""

import _signal
import os

from .failures import log_traceback

ENDING = (_signal.SIGTERM, _signal.SIGINT)
WAKE = b"\0"
"""Wakes the watching thread; not a valid signal number."""


def signal_pipe():
    """(reading, writing) ends of a pipe that receives the number of each signal. A Python handler could interrupt any code."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _signal.set_wakeup_fd(writing)
    for number in ENDING:
        follow_handler(number, lambda: None)
    return reading, writing


def follow_handler(number, react):
    """React to a signal after the handler that the user installed, if any. What that raises, SystemExit included, is only logged."""
    installed = _signal.getsignal(number)

    def handle(signal_number, frame):
        if is_users(installed):
            try:
                installed(signal_number, frame)
            except BaseException as error:  # a user's handler may raise anything
                log_traceback(error)
        react()

    _signal.signal(number, handle)


def is_users(handler):
    ours = getattr(handler, "__module__", None) or ""
    return callable(handler) and handler is not _signal.default_int_handler and not ours.startswith(__package__)
