"""One try at a run."""

from dataclasses import dataclass
from datetime import datetime

from sless.domain.model import CallStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """`number` counts from 1 over all rounds. `status` running, or how it ended (never dead: that is said of the run)."""

    run_id: str
    number: int
    version: int | None
    status: CallStatus
    http_status: int | None
    error: str | None
    started_at: datetime
    finished_at: datetime | None
