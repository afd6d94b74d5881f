"""Parses log lines (runtimes/README.md, "Log lines") received from instances and runs.

They come from the tenant's own process and cannot be trusted. Lines of all tenants are written in shared batches, so one line that the
database rejects would block every later batch. Anything malformed is therefore refused here.
"""

from typing import Any

from sless.clock import parse_rfc3339
from sless.domain.model import LogLine
from sless.ids import valid_request_id

MAX_SEQ = 2**31 - 1
MAX_TEXT_CHARS = 17 * 1024
"""Runtimes cut lines at 16 KB and mark them; anything longer did not come from a runtime."""
_STREAMS = frozenset({"stdout", "stderr"})
_YEARS = range(1970, 9999)
"""Years that stay within the calendar in every time zone."""


def log_line_of(item: Any, *, source_id: str, workload_id: str, namespace: str = "") -> LogLine:
    """Raises ValueError for anything else."""
    if not isinstance(item, dict):
        raise ValueError(f"expected an object, found {type(item).__name__}")
    seq, call, stream, text = (item.get(name) for name in ("seq", "id", "stream", "text"))
    if type(seq) is not int or not 0 <= seq <= MAX_SEQ:
        raise ValueError(f"seq: expected a whole number from 0 to {MAX_SEQ}")
    if call not in ("", None) and not (isinstance(call, str) and valid_request_id(call)):
        raise ValueError("id: expected the id of a call or an empty string")
    if not (isinstance(stream, str) and stream in _STREAMS and isinstance(text, str)):
        raise ValueError("expected a stream (stdout or stderr) and a text")
    try:
        at = parse_rfc3339(item["time"])
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError("time: expected an RFC 3339 time") from error
    if at.year not in _YEARS:
        raise ValueError(f"time: expected a year from {_YEARS.start} to {_YEARS.stop - 1}")
    return LogLine(
        source_id=source_id, seq=seq, workload_id=workload_id, invocation_id=call or "", at=at, stream=stream, text=cut(text),
        namespace=namespace,
    )  # fmt: skip


def cut(text: str) -> str:
    """The text of one line, cut to MAX_TEXT_CHARS."""
    return text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS] + " …[cut]"
