"""Splits output into lines; cleans, caps and numbers them, keeps them in a ring and writes them to the real stdout."""

import os
from _json import encode_basestring
from _thread import allocate_lock
from collections import deque
from time import gmtime, strftime, time

from .own import standard

LINE_LIMIT_BYTES = 16 * 1024
CALL_LIMIT_BYTES = 256 * 1024
RING_LIMIT_BYTES = 4 * 1024 * 1024
PAGE_LINES = 1000
HELD_LIMIT = 4 * LINE_LIMIT_BYTES
"""How much of an unfinished line is kept. More than a line may have, because escape sequences do not count."""
CUT_MARK = " …[cut]"
CALL_LIMIT_MARK = "[log over 256 KB: the rest of this call is dropped]"


class LineBuffer:
    """Cuts a stream of str or bytes into lines and holds the unfinished last one."""

    __slots__ = ("held", "newline")

    def __init__(self, newline):
        self.newline = newline
        self.held = newline[:0]

    def feed(self, data):
        """The lines that `data` completes, without their newlines."""
        lines = data.split(self.newline)
        lines[0] = self.held + lines[0]
        self.held = lines.pop()[:HELD_LIMIT]
        return lines

    def take_rest(self):
        rest, self.held = self.held, self.newline[:0]
        return rest


def cleaned(line):
    """A line as log text: valid Unicode, no escape sequences, no carriage return at the end, at most 16 KB."""
    if isinstance(line, bytes):
        line = line.decode("utf-8", "replace")
    elif not line.isascii():
        line = line.encode("utf-8", "replace").decode("utf-8")
    if "\x1b" in line or "\x9b" in line:
        line = without_escapes(line)
    line = line.rstrip("\r")
    if len(line) * 4 <= LINE_LIMIT_BYTES:
        return line
    encoded = line.encode()
    if len(encoded) <= LINE_LIMIT_BYTES:
        return line
    return encoded[:LINE_LIMIT_BYTES].decode("utf-8", "ignore") + CUT_MARK


def without_escapes(line):
    re = standard("re")
    return re.sub(
        r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
        r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC and other strings: window titles, links
        r"|\x1b[ -/]*[0-~]?",  # short sequences
        "",
        line,
    )


class LogRing:
    """The newest lines, numbered from 1; every line is also written to `descriptor`, in the same order.

    The ring has its own lock, so control requests can read while a write to a full pipe blocks.
    """

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.sequence = 0
        self.dropped = 0
        self._lines = deque()
        self._size_bytes = 0
        self._lock = allocate_lock()
        self._second = 0
        self._prefix = ""

    def add(self, stream, call_id, text):
        """Number and keep one line. The caller holds the capture lock, which fixes the order."""
        with self._lock:
            self.sequence += 1
            line = (
                f'{{"seq": {self.sequence}, "time": "{self._now()}", "stream": "{stream}", "id": {encode_basestring(call_id)}, '
                f'"text": {encode_basestring(text)}}}'
            ).encode("utf-8", "replace")
            self._lines.append((self.sequence, line))
            self._size_bytes += len(line)
            while self._size_bytes > RING_LIMIT_BYTES:
                self._size_bytes -= len(self._lines.popleft()[1])
                self.dropped += 1
        self.write_out(line + b"\n")

    def write_out(self, data):
        """Write to the real stdout. A closed stdout must not end a call."""
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except OSError:
            pass

    def page(self, after):
        """Lines with `seq > after`, oldest first, as the JSON body for the control request."""
        with self._lock:
            skip = max(0, len(self._lines) - (self.sequence - after)) if after < self.sequence else len(self._lines)
            lines = [self._lines[index][1] for index in range(skip, min(len(self._lines), skip + PAGE_LINES))]
            last, dropped = self.sequence, self.dropped
        return b'{"lines": [%b], "last": %d, "dropped": %d}' % (b", ".join(lines), last, dropped)

    def _now(self):
        now = time()
        second = int(now)
        if second != self._second:
            self._second, self._prefix = second, strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))
        return f"{self._prefix}.{int((now - second) * 1000):03d}Z"
