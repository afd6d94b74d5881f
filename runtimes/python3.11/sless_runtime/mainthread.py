"""Runs calls on the main thread when only one may run at a time, as AWS Lambda does.

Some libraries insist on the thread that imported them, or on the main thread: sqlite3 connections, signal.setitimer, threading.local,
asyncio.get_event_loop. The server then watches and drains from a separate thread.
"""

from _queue import SimpleQueue
from _thread import allocate_lock

from .failures import log_traceback


class MainThread:
    """Executes calls for other threads, in order."""

    def __init__(self):
        self._work = SimpleQueue()
        self._current = None

    def run(self, call, function, *arguments):
        """Run the function for a call and wait for its end. Raises what it raises.

        While an abandoned call blocks the main thread, the function runs in the current thread, so that the process can still serve.
        """
        current = self._current
        if current is not None and current.needs_no_slot():
            function(*arguments)
            return
        done = allocate_lock()
        done.acquire()
        failures = []
        self._work.put((call, function, arguments, failures, done))
        done.acquire()
        if failures:
            raise failures[0]

    def stop(self):
        """Make `serve` return once earlier work is done."""
        self._work.put(None)

    def serve(self):
        """Execute work until `stop`. Call it in the main thread."""
        while True:
            try:
                item = self._work.get()
            except BaseException as error:  # a user's signal handler may raise anything here
                log_traceback(error)
                continue
            if item is None:
                return
            self._current, function, arguments, failures, done = item
            try:
                function(*arguments)
            except BaseException as error:  # reported by the waiting thread
                failures.append(error)
            self._current = None
            done.release()
