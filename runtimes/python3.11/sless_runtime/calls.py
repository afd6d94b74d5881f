"""A call of the handler, the current call, and the limit of concurrent calls."""

import os
from _contextvars import ContextVar
from _socket import MSG_DONTWAIT, MSG_PEEK
from _socket import socket as raw_socket
from _thread import allocate_lock
from collections import deque
from itertools import count
from time import monotonic

current_call = ContextVar("sless_call", default=None)
UNLIMITED_MS = 2**53 - 1
"""Result of `remaining_ms()` without a deadline: the largest integer that JavaScript represents exactly."""


STREAM_LOOK_SEC = 0.05

ID_START = os.urandom(8).hex()
id_numbers = count()
"""An id for a request without one, sent by hand rather than by sless."""


class Call:
    """`deadline` is in seconds of `monotonic()`, or None; `partial_lines` holds printed text that has no newline yet; `stream_to` is the
    client's descriptor while an iterator is being sent to it."""

    __slots__ = (
        "deadline",
        "finished",
        "id",
        "log_bytes",
        "log_closed",
        "partial_lines",
        "request_id",
        "stream_to",
        "timeout_sec",
        "trigger",
    )

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
        self.stream_to = None

    def remaining_ms(self):
        """Whole milliseconds until the deadline, at least 0."""
        if self.deadline is None:
            return UNLIMITED_MS
        return max(0, int((self.deadline - monotonic()) * 1000))

    def is_overdue(self):
        deadline = self.deadline
        return deadline is not None and monotonic() > deadline

    def needs_no_slot(self):
        """Whether the call is abandoned: overdue, or an iterator whose client has left. It may wait for ever, so its slot goes to other
        calls."""
        if self.is_overdue():
            return True
        descriptor = self.stream_to
        return descriptor is not None and client_left(descriptor)

    def pause_clock(self):
        """Suspend the deadline while a chunk is sent: the client's speed does not count against the handler."""
        self.deadline = None

    def restart_clock(self):
        """Restart the deadline: after each chunk the handler has its full time-out again."""
        if self.timeout_sec is not None:
            self.deadline = monotonic() + self.timeout_sec


class Slots:
    """Lets `limit` calls run at once, in order of arrival. Abandoned calls (`Call.needs_no_slot`) do not count."""

    def __init__(self, limit):
        self.limit = limit
        self.running = {}
        self._waiting = deque()
        self._lock = allocate_lock()

    def enter(self, call, before_waiting=None):
        """Take a slot, waiting if necessary; False when the call's deadline passes first. `before_waiting` is called before waiting."""
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
        if self._waiting:  # a call that starts to wait from here on sees the free slot
            with self._lock:
                self._admit()

    def overdue_count(self):
        return sum(call.is_overdue() for call in list(self.running))

    def _admit(self):
        while self._waiting and sum(not call.needs_no_slot() for call in list(self.running)) < self.limit:
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
        """Seconds until a slot may become free although no call ends: at the earliest deadline of a running call, or soon while a client
        may leave its stream."""
        if any(one.stream_to is not None for one in list(self.running)):
            return STREAM_LOOK_SEC
        deadlines = [one.deadline for one in (call, *list(self.running)) if one.deadline is not None and not one.is_overdue()]
        return max(0.001, min(deadlines) - monotonic()) if deadlines else 3600.0


def client_left(descriptor):
    """Whether the other end has closed; False when it has sent more data."""
    sock = raw_socket(fileno=descriptor)
    try:
        return sock.recv(1, MSG_PEEK | MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        sock.detach()
