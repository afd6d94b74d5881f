"""A tenant's usage per day, as rows for billing. Pure."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """`day` is a UTC date. `gb_seconds` is memory × duration of all calls; `run_gb_seconds` the part of one-off runs (jobs, and calls
    of functions without instances), including every attempt. `instance_gb_seconds` is memory × uptime of instances, called or
    not. `stored_bytes` is the day's maximum of stored code."""

    namespace: str
    day: str
    calls: int
    errors: int
    gb_seconds: float
    run_gb_seconds: float
    instance_gb_seconds: float
    build_seconds: float
    stored_bytes: int
    sent_bytes: int


COLUMNS = tuple(field.name for field in fields(UsageRow))


def plain_row(row: UsageRow) -> dict[str, Any]:
    return {name: round(value, 3) if isinstance(value := getattr(row, name), float) else value for name in COLUMNS}


def csv_of(rows: Iterable[UsageRow]) -> str:
    """The rows as CSV with a header line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(map(plain_row, rows))
    return text.getvalue()
