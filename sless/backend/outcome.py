"""What a run left behind: the runtime's result file → an Outcome, within the limits."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sless.domain.model import Kind
from sless.domain.ports import Outcome

MAX_CALL_RESULT_BYTES = 32 * 2**20
"""Of a function called once; a job's limit is a setting."""
_ESCAPED = 8
"""A result file holds the result twice (as result and as body), each at worst four times its size as JSON: larger ones are not parsed."""


class ResultTooLarge(Exception):
    """The text is for the user."""


class NoOutcome(Exception):
    """The process left no result, or one that is not what runtimes/README.md says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes of a result."""

    job: int
    call: int = MAX_CALL_RESULT_BYTES

    def of(self, kind: Kind) -> int:
        return self.job if kind is Kind.JOB else self.call


def read_outcome(path: Path, limit_bytes: int) -> Outcome:
    """Raises NoOutcome, ResultTooLarge."""
    try:
        size = path.stat().st_size
        if size > limit_bytes * _ESCAPED + 64 * 1024:
            raise ResultTooLarge(f"result is over {size // _ESCAPED} bytes, over the limit of {limit_bytes}")
        item = json.loads(path.read_bytes())
        outcome = _outcome_of(item)
    except FileNotFoundError:
        raise NoOutcome("no result file") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoOutcome(f"unreadable result file: {error}") from error
    used = max(len((outcome.result or "").encode()), len(outcome.body))
    if used > limit_bytes:
        raise ResultTooLarge(f"result is {used} bytes, over the limit of {limit_bytes}")
    return outcome


def _outcome_of(item: dict[str, Any]) -> Outcome:
    encoded = item.get("body_base64")
    return Outcome(
        ok=bool(item["ok"]),
        result=_text_or_none(item.get("result")),
        error=_text_or_none(item.get("error")),
        error_type=_text_or_none(item.get("error_type")),
        status=int(item["status"]),
        headers=tuple((str(name), str(value)) for name, value in item.get("headers") or ()),
        body=base64.b64decode(encoded) if encoded is not None else str(item.get("body") or "").encode(),
    )


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
