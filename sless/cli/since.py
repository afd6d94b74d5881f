"""The option --since: a length of time back from now, or a time."""

import re
from datetime import UTC, datetime, timedelta

import click

from sless.clock import parse_rfc3339, rfc3339_of

UNITS_SEC = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def since_of(text: str | None) -> str | None:
    if text is None:
        return None
    relative = re.fullmatch(r"(\d{1,6})([smhd])", text)
    try:
        if relative:
            return rfc3339_of(datetime.now(UTC) - timedelta(seconds=int(relative[1]) * UNITS_SEC[relative[2]]))
        return rfc3339_of(parse_rfc3339(text))
    except (ValueError, OverflowError) as error:  # the latter: before the year 1
        raise click.UsageError(f"--since: expected 30s, 10m, 2h, 3d or an RFC 3339 time, found {text!r}") from error
