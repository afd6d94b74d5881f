"""Reads the result file of a run into an Outcome, within limits."""

import json
import re
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sless.children import run_child
from sless.domain.event import own_failure_of
from sless.domain.model import Kind
from sless.domain.ports import Outcome
from sless.host import split_result

MAX_CALL_RESULT_BYTES = 32 * 2**20
"""Limit for a one-off call of a function; the limit for jobs is a setting."""
SMALL_BYTES = 1 * 2**20
"""Larger result files are parsed in a child process."""
MAX_FILE_BYTES = 512 * 2**20
"""Larger result files are not opened at all."""
CHILD_SEC = 60.0
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class ResultTooLarge(Exception):
    """The result exceeds a limit. The text is for users."""


class NoOutcome(Exception):
    """The process left no result, or one that violates runtimes/README.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Maximum result sizes in bytes. `stop_sec`: from SIGTERM to SIGKILL for a run over its time limit."""

    job: int
    call: int = MAX_CALL_RESULT_BYTES
    stop_sec: float = 2.0

    def of(self, kind: Kind) -> int:
        return self.job if kind is Kind.JOB else self.call


def read_outcome(path: Path, limit_bytes: int) -> Outcome:
    """Raises NoOutcome, ResultTooLarge. The tenant controls the file: it may contain, and be, anything."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise NoOutcome("unreadable result file: expected a regular file")
        size = found.st_size
        if size > MAX_FILE_BYTES:
            raise ResultTooLarge(f"result is over {MAX_FILE_BYTES // 2**20} MB, over the limit of {limit_bytes} bytes")
        if size > SMALL_BYTES:
            return _split_and_read(path, limit_bytes)
        head, body = split_result.head_of(json.loads(path.read_bytes()))
        _check_size(head, limit_bytes)
        return _outcome_of(head, body)
    except FileNotFoundError:
        raise NoOutcome("no result file") from None
    except (OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoOutcome(f"unreadable result file: {error}") from error


def _split_and_read(path: Path, limit_bytes: int) -> Outcome:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="split-") as folder:
        try:
            done = run_child("sless.host.split_result", json.dumps([str(path), folder]).encode(), CHILD_SEC, urgent=True)
        except subprocess.TimeoutExpired:
            raise NoOutcome(f"unreadable result file: reading it took longer than {CHILD_SEC:.0f} s") from None
        if done.returncode:
            raise NoOutcome(f"unreadable result file: {done.stderr.decode(errors='replace').strip()[-300:]}")
        head = json.loads(Path(folder, "head.json").read_bytes())
        _check_size(head, limit_bytes)
        return _outcome_of(head, Path(folder, "body").read_bytes())


def _check_size(head: dict[str, Any], limit_bytes: int) -> None:
    if (used := head["body_bytes"]) > limit_bytes:
        raise ResultTooLarge(f"result is {used} bytes, over the limit of {limit_bytes}")


def _outcome_of(head: dict[str, Any], body: bytes) -> Outcome:
    """The outcome, by the same rules as an instance's answer."""
    status = _status_of(head["status"])
    own_failure = own_failure_of(status, body)
    return Outcome(
        ok=bool(head["ok"]) and own_failure is None,
        error=_text_or_none(head.get("error")) or own_failure,
        error_type=_text_or_none(head.get("error_type")),
        status=status,
        headers=tuple(_header_of(name, value) for name, value in head.get("headers") or ()),
        body=body,
    )


def _status_of(value: Any) -> int:
    if type(value) is not int or not 200 <= value <= 599:
        raise ValueError("status: expected a whole number from 200 to 599")
    return value


def _header_of(name: Any, value: Any) -> tuple[str, str]:
    """Refuses line breaks, with which a function could set headers reserved for sless."""
    if not (isinstance(name, str) and _NAME.fullmatch(name) and isinstance(value, str) and _VALUE.fullmatch(value)):
        raise ValueError("headers: expected pairs of a name and a value without control characters")
    return name, value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
