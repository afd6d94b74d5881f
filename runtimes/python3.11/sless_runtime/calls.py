"""One call of the handler, which call the running code belongs to, and how many calls run at once."""

import os
from _contextvars import ContextVar
from _thread import allocate_lock
from collections import deque
from itertools import count
from time import monotonic

current_call = ContextVar("sless_call", default=None)
UNLIMITED_MS = 2**53 - 1
"""What `remaining_ms()` says without a deadline: the largest number that JavaScript holds exactly too."""


ID_START = os.urandom(8).hex()
id_numbers = count()
"""For calls that come without an id, from somebody who calls the runtime by hand."""


class Call:
    """`deadline` is in seconds of `monotonic()`, None without one; `partial_lines` holds what was printed without a newline yet."""

    __slots__ = ("deadline", "finished", "id", "log_bytes", "log_closed", "partial_lines", "request_id", "timeout_sec", "trigger")

    def __init__(self, call_id, request_id, trigger, timeout_sec):
        self.id = call_id or request_id or f"{ID_START}{next(id_numbers):016x}"
        self.request_id = request_id or self.id
        self.trigger = trigger
        self.timeout_sec = timeout_sec
        self.deadline = None if timeout_sec is None else monotonic() + timeout_sec
        self.log_bytes = 0
        self.log_closed = False
        self.partial_lines = None
        self.finished = False

    def remaining_ms(self):
        """Whole milliseconds until the deadline, never negative."""
        if self.deadline is None:
            return UNLIMITED_MS
        return max(0, int((self.deadline - monotonic()) * 1000))

    def is_overdue(self):
        deadline = self.deadline
        return deadline is not None and monotonic() > deadline

    def pause_clock(self):
        """While a chunk is being sent the client is slow, not the handler."""
        self.deadline = None

    def restart_clock(self):
        """After each chunk the handler has its whole time again."""
        if self.timeout_sec is not None:
            self.deadline = monotonic() + self.timeout_sec


class Slots:
    """Lets `limit` calls run at once, in order of arrival. Calls past their deadline are nobody's any more and take no slot."""

    def __init__(self, limit):
        self.limit = limit
        self.running = {}
        self._waiting = deque()
        self._lock = allocate_lock()

    def enter(self, call, before_waiting=None):
        """Waits for a slot; False when the deadline of the call passed before there was one. `before_waiting` is called if it has to."""
        with self._lock:
            if len(self.running) < self.limit and not self._waiting:
                self.running[call] = None
                return True
        if before_waiting is not None:
            before_waiting()
        with self._lock:
            gate = allocate_lock()
            gate.acquire()
            self._waiting.append((gate, call))
            self._admit()
        return self._wait(gate, call)

    def leave(self, call):
        self.running.pop(call, None)
        if self._waiting:  # whoever begins to wait from now on sees the free slot
            with self._lock:
                self._admit()

    def overdue_count(self):
        return sum(call.is_overdue() for call in list(self.running))

    def _admit(self):
        while self._waiting and len(self.running) - self.overdue_count() < self.limit:
            gate, call = self._waiting.popleft()
            self.running[call] = None
            gate.release()

    def _wait(self, gate, call):
        while not gate.acquire(timeout=self._patience(call)):
            with self._lock:
                if call.is_overdue() and (gate, call) in self._waiting:
                    self._waiting.remove((gate, call))
                    return False
                self._admit()
        return True

    def _patience(self, call):
        """Seconds until the next deadline of anybody: that is when a slot can become free without anybody leaving."""
        deadlines = [one.deadline for one in (call, *list(self.running)) if one.deadline is not None and not one.is_overdue()]
        return max(0.001, min(deadlines) - monotonic()) if deadlines else 3600.0
