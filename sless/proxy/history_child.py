"""The recorder's link to a child process that writes history (`store.history_process`).

Batches go to its stdin and answers come from its stdout, as numbered messages. A child that exits is replaced; the new one gets all batches
that were not acknowledged. The first child is a fork of the server if possible; later ones, when the server has threads, are executed.
"""

import fcntl
import logging
import marshal
import os
import select
import subprocess
from collections.abc import Callable, Sequence
from time import monotonic
from typing import IO, cast

from sless.children import ForkedChild
from sless.domain.call_sums import Outcomes
from sless.domain.durations import backoff_sec
from sless.domain.history_batch import message_of, take_messages
from sless.proxy.recorder import Acknowledgement, MakeLink, Sender

_log = logging.getLogger(__name__)
_PIPE_BYTES = 2**20
_READ_BYTES = 2**16
_FIRST_REST_SEC = 0.05
_MOST_REST_SEC = 5.0
_WELL_SEC = 10.0
"""A child that lived this long is replaced without a pause."""
_END_SEC = 1.0

Process = subprocess.Popen[bytes] | ForkedChild


def link_to_child(command: Sequence[str], order: bytes, environ: dict[str, str], first: ForkedChild | None) -> MakeLink:
    """`order` is the child's first message; unlike arguments and environment variables, other processes cannot see it. `first` is a child
    that waits for it already."""
    return lambda sender: ChildLink(lambda: _execute(command, environ), order, sender, first)


def _execute(command: Sequence[str], environ: dict[str, str]) -> "subprocess.Popen[bytes]":
    # In a process group of its own, because a terminal's signals should only reach the server, which then ends this process.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, process_group=0)


class ChildLink:
    """recorder.HistoryLink."""

    def __init__(self, execute: Callable[[], Process], order: bytes, sender: Sender, first: ForkedChild | None) -> None:
        self._execute = execute
        self._order = order
        self._sender = sender
        self._first = first
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._child: _Child | None = None
        self._rest_until = 0.0
        self._failures = 0

    def pump(self, timeout_sec: float) -> None:
        if self._child is None and monotonic() >= self._rest_until:
            self._start()
        child = self._child
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if child is None:
            timeout_sec = min(timeout_sec, max(0.0, self._rest_until - monotonic()))
        else:
            poll.register(child.answers, select.POLLIN)
            if not self._send(child):
                poll.register(child.batches, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(timeout_sec * 1000)}
        if self._woken in ready:
            os.read(self._woken, _READ_BYTES)
        if child is not None and child.answers in ready and not self._receive(child):
            self._replace(child)

    def wake(self) -> None:
        try:
            os.write(self._waker, b"x")
        except BlockingIOError:
            pass  # the pipe is full of wake-ups already

    def finish(self, timeout_sec: float) -> None:
        deadline = monotonic() + timeout_sec
        while self._sender.unwritten() and monotonic() < deadline:
            self.pump(min(0.1, deadline - monotonic()))
        child = self._child or (_Child(self._first) if self._first is not None else None)
        self._child = self._first = None
        if child is not None:
            child.end(max(_END_SEC, deadline - monotonic()))

    @property
    def pid(self) -> int | None:
        return self._child.process.pid if self._child is not None else None

    def _start(self) -> None:
        try:
            self._child = _Child(self._first or self._execute())
        except OSError as error:
            _log.warning("cannot start the process that writes history: %s", error)
            self._rest()
            return
        self._first = None
        self._sender.take_back()
        self._child.queue(0, self._order)

    def _send(self, child: "_Child") -> bool:
        """Writes what fits into the pipe. Returns whether nothing is left."""
        while True:
            while child.unsent:
                try:
                    child.unsent = child.unsent[os.write(child.batches, child.unsent) :]
                except BlockingIOError:
                    return False
                except BrokenPipeError:
                    return True  # `_receive` notices that the child has exited
            sealed = self._sender.take()
            if sealed is None:
                return True
            child.queue(sealed.number, sealed.data)

    def _receive(self, child: "_Child") -> bool:
        """False: the child has ended."""
        data = os.read(child.answers, _READ_BYTES)
        child.received += data
        for number, answer in take_messages(child.received):
            calls, histogram, duration_ms, dropped_calls, dropped_lines = marshal.loads(answer)
            self._sender.written(Acknowledgement(number, Outcomes(calls, histogram, duration_ms), dropped_calls, dropped_lines))
        return bool(data)

    def _replace(self, child: "_Child") -> None:
        self._child = None
        code = child.end(_END_SEC)
        _log.warning("the process that writes history has ended (%s); starting another", describe(code))
        if monotonic() - child.started > _WELL_SEC:
            self._failures = 0
        self._rest()

    def _rest(self) -> None:
        self._failures += 1
        self._rest_until = monotonic() + backoff_sec(self._failures, first_sec=_FIRST_REST_SEC, max_sec=_MOST_REST_SEC)


class _Child:
    def __init__(self, process: Process) -> None:
        self.started = monotonic()
        self.process = process
        self.batches, self.answers = cast(IO[bytes], self.process.stdin).fileno(), cast(IO[bytes], self.process.stdout).fileno()
        os.set_blocking(self.batches, False)
        try:
            # A large pipe, since its content survives the end of this process.
            fcntl.fcntl(self.batches, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except PermissionError:
            pass  # this user already has many large pipes
        self.unsent = memoryview(b"")
        self.received = bytearray()

    def queue(self, number: int, data: bytes) -> None:
        self.unsent = memoryview(message_of(number, data))

    def end(self, timeout_sec: float) -> int:
        """Closes its stdin, which makes it exit; kills it after that time."""
        cast(IO[bytes], self.process.stdin).close()
        try:
            return self.process.wait(timeout_sec)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            cast(IO[bytes], self.process.stdout).close()


def describe(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
