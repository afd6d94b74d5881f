"""Attributes threads to the call that started them, and work in a pool to the call that submitted it."""

import sys
import threading

from .calls import current_call

POOL_MODULE = "concurrent.futures.thread"


def install():
    """Pass the current call to new threads: Python 3.11 starts them with an empty context."""
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
    """Make each work item remember its call: a pool's thread outlives the call that started it."""
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
