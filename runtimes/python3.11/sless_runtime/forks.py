"""A forked child (multiprocessing, os.fork) ends when it is told to, and its signals are not the server's."""

import _signal
import os
from _thread import get_ident

ENDING = (_signal.SIGTERM, _signal.SIGINT)
masks = {}
"""Thread that forks → the signals it had blocked before."""


def install():
    """Signals wait from before the fork until the child has its own handlers: in between they would reach ours, in the wrong process."""
    os.register_at_fork(before=hold_signals, after_in_parent=release_signals, after_in_child=become_child)


def hold_signals():
    masks[get_ident()] = _signal.pthread_sigmask(_signal.SIG_BLOCK, ENDING)


def release_signals():
    _signal.pthread_sigmask(_signal.SIG_SETMASK, masks.pop(get_ident(), ()))


def become_child():
    _signal.set_wakeup_fd(-1)
    _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    release_signals()
