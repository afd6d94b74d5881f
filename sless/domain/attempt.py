"""One attempt of a run."""

from dataclasses import dataclass
from datetime import datetime

from sless.domain.model import CallStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """`number` counts from 1, over manual retries too. `status` is running or how the attempt ended (never dead: only runs are)."""

    run_id: str
    number: int
    version: int | None
    status: CallStatus
    http_status: int | None
    error: str | None
    started_at: datetime
    finished_at: datetime | None
