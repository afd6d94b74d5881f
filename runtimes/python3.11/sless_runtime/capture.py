"""Turns everything written to stdout and stderr into log lines.

`sys.stdout` and `sys.stderr` attribute a line to the current call (a context variable that tasks inherit, and threads through `threads`).
Descriptors 1 and 2 are pipes for child processes and C extensions; their lines are attributed only while a single call runs. The pipes are
drained before each line of the first kind, which keeps the order within a call.
"""

import io
import os
import sys
from _thread import RLock, get_ident, start_new_thread
from select import POLLIN, poll

from .calls import current_call
from .loglines import CALL_LIMIT_BYTES, CALL_LIMIT_MARK, LineBuffer, LogRing, cleaned

DESCRIPTORS = {"stdout": 1, "stderr": 2}


class Capture:
    """`running` is the live collection of running calls; see `Slots`."""

    def __init__(self, running):
        self.running = running
        self.ring = LogRing(os.dup(1))
        self.forked = False
        self._lock = RLock()
        self._pipes = {}
        self._raw_out, self._raw_err = LineBuffer(b"\n"), LineBuffer(b"\n")
        self._raw_lines = {"stdout": self._raw_out, "stderr": self._raw_err}
        self._idle_lines = {}
        self._drain_poller = poll()
        self._draining = False

    def install(self):
        """Redirect output: only log lines reach the real stdout and stderr from now on."""
        for name, descriptor in DESCRIPTORS.items():
            reading, writing = os.pipe()
            os.dup2(writing, descriptor)
            os.close(writing)
            os.set_blocking(reading, False)
            self._pipes[reading] = name
            text = TaggedText(self, name)
            setattr(sys, name, text)
            setattr(sys, f"__{name}__", text)
        self._drain_poller = self.poller()
        os.register_at_fork(after_in_child=self._after_fork)
        start_new_thread(self._pump, ())

    def poller(self):
        """A poll object over the pipes. Threads cannot share one."""
        poller = poll()
        for reading in self._pipes:
            poller.register(reading, POLLIN)
        return poller

    def write(self, name, data):
        """Log text or bytes that the current call wrote through `sys.stdout` or `sys.stderr`."""
        if self.forked:
            self._write_in_child(name, data)
            return
        call = current_call.get()
        with self._lock:
            lines = self._buffer_of(call, name, data).feed(data)
            if lines and not (call is not None and call.log_closed):
                self._drain()
                for line in lines:
                    self._emit(call, name, line)

    def _write_in_child(self, name, data):
        """Write whole lines, each in one write, so that the output of several children does not interleave."""
        raw = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
        with self._lock:
            lines = self._raw_lines[name].feed(raw)
            if lines:
                write_all(DESCRIPTORS[name], b"\n".join([*lines, b""]))

    def flush(self, name):
        """Only a forked child has unflushed output; all other output is already in memory."""
        if self.forked:
            with self._lock:
                write_all(DESCRIPTORS[name], self._raw_lines[name].take_rest())

    def finish(self, call, poller):
        """Log the unfinished last line of a call that has ended."""
        # Check this last: another thread may have read the call's last line, but not attributed it yet.
        if call.partial_lines is None and not poller.poll(0) and not self._raw_out.held and not self._raw_err.held and not self._draining:
            return
        alone = len(self.running) == 1
        with self._lock:
            self._drain()
            if alone:
                self._flush_raw(call)
            self._flush(call, call.partial_lines or {})

    def finish_idle(self):
        """Log the unfinished last line that was written outside any call; used after the import and at exit."""
        with self._lock:
            self._drain()
            self._flush_raw(None)
            self._flush(None, self._idle_lines)

    def _buffer_of(self, call, name, data):
        """One buffer per thread, so that threads of one call do not mix their lines."""
        if call is None:
            buffers = self._idle_lines
        elif call.partial_lines is None:
            buffers = call.partial_lines = {}
        else:
            buffers = call.partial_lines
        key = (name, get_ident(), type(data))
        buffer = buffers.get(key)
        if buffer is None:
            buffer = buffers[key] = LineBuffer(b"\n" if isinstance(data, bytes) else "\n")
        return buffer

    def _emit(self, call, name, line):
        text = cleaned(line)
        if call is None:
            self.ring.add(name, "", text)
            return
        if call.log_closed:
            return
        call.log_bytes += len(text if text.isascii() else text.encode()) + 1
        if call.log_bytes > CALL_LIMIT_BYTES:
            call.log_closed = True
            text = CALL_LIMIT_MARK
        self.ring.add(name, call.id, text)

    def _flush(self, call, buffers):
        for key in list(buffers):
            rest = buffers[key].take_rest()
            if rest:
                self._emit(call, key[0], rest)
        buffers.clear()

    def _flush_raw(self, call):
        for name, buffer in self._raw_lines.items():
            rest = buffer.take_rest()
            if rest:
                self._emit(call, name, rest)

    def _drain(self):
        """Drain the pipes. The caller holds the lock."""
        self._draining = True
        try:
            self._read_pipes()
        finally:
            self._draining = False

    def _read_pipes(self):
        for reading, _ in self._drain_poller.poll(0):
            name = self._pipes.get(reading)
            if name is None:
                continue
            try:
                while data := os.read(reading, 65536):
                    call = self._owner()
                    for line in self._raw_lines[name].feed(data):
                        self._emit(call, name, line)
                self._pipes.pop(reading)  # no writer is left
                self._drain_poller.unregister(reading)
            except BlockingIOError:
                pass

    def _owner(self):
        running = list(self.running)
        return running[0] if len(running) == 1 else None

    def _pump(self):
        """Thread that waits for output of children and extensions."""
        poller = self.poller()
        while self._pipes:
            poller.poll()
            with self._lock:
                before = set(self._pipes)
                self._drain()
                for closed in before - set(self._pipes):
                    poller.unregister(closed)

    def _after_fork(self):
        """Make a forked child write through the pipes, which its parent reads. It must not number lines or
        wait for a lock that a thread of the parent held."""
        self.forked = True
        self._lock = RLock()
        self._raw_lines = {name: LineBuffer(b"\n") for name in DESCRIPTORS}


def write_all(descriptor, data):
    while data:
        data = data[os.write(descriptor, data) :]


class TaggedBytes(io.RawIOBase):
    """`sys.stdout.buffer`. Closing has no effect, because a discarded wrapper closes it."""

    def __init__(self, capture, name):
        self._capture = capture
        self.name = f"<{name}>"
        self._stream = name

    def writable(self):
        return True

    def fileno(self):
        return DESCRIPTORS[self._stream]

    def isatty(self):
        return False

    def write(self, data):
        data = bytes(data)
        self._capture.write(self._stream, data)
        return len(data)

    def flush(self):
        self._capture.flush(self._stream)

    def close(self):
        pass


class TaggedText(io.TextIOBase):
    """`sys.stdout` and `sys.stderr`: logs each line at once, attributed to its call."""

    encoding = "utf-8"
    errors = "replace"
    line_buffering = True
    write_through = True
    mode = "w"

    def __init__(self, capture, name):
        self._capture = capture
        self._stream = name
        self.name = f"<{name}>"
        self.buffer = TaggedBytes(capture, name)

    def writable(self):
        return True

    def fileno(self):
        return DESCRIPTORS[self._stream]

    def isatty(self):
        return False

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._capture.write(self._stream, text)
        return len(text)

    def flush(self):
        self._capture.flush(self._stream)

    def reconfigure(self, **_options):
        """Accepted without effect: there is no buffering and only one encoding."""

    def close(self):
        pass
