"""Threads belong to the call that started them; work given to a pool belongs to the call that gave it."""

import sys
import threading

from .calls import current_call

POOL_MODULE = "concurrent.futures.thread"


def install():
    """Python 3.11 starts threads with an empty context, so the current call is handed over by hand."""
    start, bootstrap_inner = threading.Thread.start, threading.Thread._bootstrap_inner

    def start_with_call(thread):
        thread.__dict__["_sless_call"] = current_call.get()
        if POOL_MODULE in sys.modules:
            install_pool(sys.modules[POOL_MODULE])
        start(thread)

    def bootstrap_with_call(thread):
        current_call.set(thread.__dict__.pop("_sless_call", None))
        bootstrap_inner(thread)

    threading.Thread.start = start_with_call
    threading.Thread._bootstrap_inner = bootstrap_with_call


def install_pool(module):
    """A worker thread outlives the call that started it: each item of work remembers its own call."""
    item = getattr(module, "_WorkItem", None)
    if item is None or hasattr(item, "sless_original"):
        return
    item.sless_original = create, run = item.__init__, item.run

    def create_with_call(self, *arguments, **named):
        create(self, *arguments, **named)
        self.sless_call = current_call.get()

    def run_with_call(self):
        token = current_call.set(getattr(self, "sless_call", None) or current_call.get())
        try:
            run(self)
        finally:
            current_call.reset(token)

    item.__init__, item.run = create_with_call, run_with_call
