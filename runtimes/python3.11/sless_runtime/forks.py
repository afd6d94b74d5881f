"""Gives forked children (multiprocessing, os.fork) the default signal handlers, so that SIGTERM ends them."""

import _signal
import os
from _thread import get_ident

ENDING = (_signal.SIGTERM, _signal.SIGINT)
masks = {}
"""Forking thread → the signals it had blocked before."""


def install():
    """Block signals from before the fork until the child has its own handlers; otherwise the server's would run there."""
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
