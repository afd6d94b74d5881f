"""The recorder's link to a child process that writes history (`store.history_process`).

Each batch is a file in memory. The link sends its descriptor over a socket, the stdin of the child, so batches that were sent survive the
end of the server. The child answers on stdout with numbered messages. If it exits, the link starts another and sends all unacknowledged
batches again. The first child is a fork of the server if possible; later ones are executed, because the server has threads by then.
"""

import logging
import marshal
import os
import select
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import IO, NamedTuple, cast

from sless.children import ForkedChild, fork_child
from sless.domain.call_sums import Outcomes
from sless.domain.durations import backoff_sec
from sless.domain.history_batch import NUMBER_BYTES, take_messages
from sless.proxy.batch_queue import Sealed
from sless.proxy.recorder import Acknowledgement, MakeLink, Sender

_log = logging.getLogger(__name__)
_MOST_SENT = 128
"""Maximum number of unacknowledged batches. Linux limits how many descriptors a user may have in flight."""
_READ_BYTES = 2**16
_FIRST_REST_SEC = 0.05
_MOST_REST_SEC = 5.0
_WELL_SEC = 10.0
"""A child that lived this long is replaced without a pause."""
_END_SEC = 1.0

Process = subprocess.Popen[bytes] | ForkedChild
StartProcess = Callable[[int], Process | None]
"""Starts the process with this stdin."""


class Writer(NamedTuple):
    """How to run the history writer: `main` in a fork, or `command` with `environ`."""

    main: Callable[[], None]
    command: Sequence[str]
    environ: dict[str, str]

    def fork(self, stdin_fd: int) -> Process | None:
        return fork_child(self.main, stdin_fd)

    def execute(self, stdin_fd: int) -> Process:
        # A process group of its own, so that a terminal's signals reach only the server, which then ends this process.
        return subprocess.Popen(self.command, stdin=stdin_fd, stdout=subprocess.PIPE, env=self.environ, process_group=0)


def link_to_child(writer: Writer, order: bytes) -> MakeLink:
    """Call this before anything starts a thread, because it forks this process if it can. `order` is the child's first message; unlike
    arguments and environment variables, other processes cannot see it."""
    first = _start(writer.fork)
    return lambda sender: ChildLink(writer.execute, order, sender, first)


class ChildLink:
    """recorder.HistoryLink."""

    def __init__(self, execute: StartProcess, order: bytes, sender: Sender, first: "_Child | None") -> None:
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
        child = self._child or self._first
        self._child = self._first = None
        if child is not None:
            child.end(max(_END_SEC, deadline - monotonic()))

    @property
    def pid(self) -> int | None:
        return self._child.process.pid if self._child is not None else None

    def _start(self) -> None:
        try:
            self._child = self._first or _start(self._execute)
        except OSError as error:
            _log.warning("cannot start the process that writes history: %s", error)
            self._rest()
            return
        self._first = None
        self._sender.take_back()
        if self._child is not None:
            self._child.unsent = Sealed(0, self._order)

    def _send(self, child: "_Child") -> bool:
        """Sends up to _MOST_SENT batches. False: the socket is full."""
        while len(child.sent) < _MOST_SENT:
            child.unsent = child.unsent or self._sender.take()
            if child.unsent is None:
                return True
            try:
                child.send(child.unsent)
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                return True  # `_receive` notices that the child has exited
            child.sent.append(child.unsent.number)
            child.unsent = None
        return True

    def _receive(self, child: "_Child") -> bool:
        """False: the child has ended."""
        data = os.read(child.answers, _READ_BYTES)
        child.received += data
        for number, answer in take_messages(child.received):
            calls, histogram, duration_ms, dropped_calls, dropped_lines = marshal.loads(answer)
            while child.sent and child.sent[0] <= number:
                child.sent.popleft()
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


def _start(start: StartProcess) -> "_Child | None":
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = None
    try:
        process = start(theirs.fileno())
        return _Child(process, ours) if process is not None else None
    finally:
        theirs.close()
        if process is None:
            ours.close()


class _Child:
    def __init__(self, process: Process, batches: socket.socket) -> None:
        self.started = monotonic()
        self.process = process
        self.batches, self.answers = batches, cast(IO[bytes], process.stdout).fileno()
        batches.setblocking(False)
        self.unsent: Sealed | None = None
        self.sent: deque[int] = deque()
        """Numbers of batches that are not acknowledged."""
        self.received = bytearray()

    def send(self, sealed: Sealed) -> None:
        with open(os.memfd_create("history"), "wb") as file:
            file.write(sealed.data)
            file.flush()
            socket.send_fds(self.batches, [sealed.number.to_bytes(NUMBER_BYTES)], [file.fileno()])

    def end(self, timeout_sec: float) -> int:
        """Closes its stdin, which makes it exit; kills it after that time."""
        self.batches.close()
        try:
            return self.process.wait(timeout_sec)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            cast(IO[bytes], self.process.stdout).close()


def describe(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
