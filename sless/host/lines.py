"""Pipe bytes of a runtime → log lines (runtimes/README.md, "Log lines"), and a short tail for messages."""

import json
from collections import deque
from collections.abc import Callable, Sequence

from sless import clock
from sless.domain.log_line import cut, log_line_of
from sless.domain.model import LogLine

OUTSIDE_SEQ = 1 << 30
"""Lines not written through the runtime (a crash report, an error of the interpreter) are numbered from here; the runtime uses the numbers
below. The sum still fits 32 bits."""
TAIL_LINES = 20
_MAX_TAIL_CHARS = 2_000
_CRASHES = ("panic: ", "fatal error: ", "Fatal Python error: ", "FATAL ERROR: ")
"""First words of the crash reports of Go, Python and Node.js, which bypass sless's runtime."""
_MAX_CRASH_CHARS = 300

Sink = Callable[[list[LogLine]], None]


class LineReader:
    """Parses the lines of one source. `take` has the signature of `Launch.on_lines`; lines go to `sink` immediately."""

    def __init__(self, source_id: str, workload_id: str, sink: Sink, *, namespace: str, invocation_id: str = "") -> None:
        self._source_id = source_id
        self._workload_id = workload_id
        self._namespace = namespace
        self._invocation_id = invocation_id
        self._sink = sink
        self._outside = OUTSIDE_SEQ
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.crash = ""
        """The first line of the crash report (`panic: …`), "" without one."""

    def take(self, stream: str, raw_lines: Sequence[bytes]) -> None:
        lines = [line for raw in raw_lines if (line := self._line_of(stream, raw)) is not None]
        if lines:
            self._tail.extend(line.text[:_MAX_TAIL_CHARS] for line in lines)
            self._sink(lines)

    def tail(self) -> list[str]:
        """The last lines, oldest first."""
        return list(self._tail)

    def _line_of(self, stream: str, raw: bytes) -> LogLine | None:
        if stream == "stdout" and raw.startswith(b'{"'):
            line = self._runtime_line_of(raw)
            if line is not None:
                return line
        text = raw.decode("utf-8", "replace").rstrip("\r").replace("\0", "")
        if not text.strip() or text.startswith('{"sless_outcome"'):
            return None
        if not self.crash and text.startswith(_CRASHES):
            self.crash = text[:_MAX_CRASH_CHARS]
        self._outside += 1
        return LogLine(
            source_id=self._source_id, seq=self._outside, workload_id=self._workload_id, invocation_id=self._invocation_id,
            at=clock.now(), stream="stderr", text=cut(text), namespace=self._namespace,
        )  # fmt: skip

    def _runtime_line_of(self, raw: bytes) -> LogLine | None:
        try:
            return log_line_of(json.loads(raw), source_id=self._source_id, workload_id=self._workload_id, namespace=self._namespace)
        except (ValueError, RecursionError):
            return None
