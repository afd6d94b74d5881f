"""Time: aware UTC datetimes internally, RFC 3339 text externally."""

import re
from datetime import datetime, timedelta, timezone

UTC = timezone.utc
"""`datetime.UTC`, which Python 3.10 lacks."""
_UNITS_SEC = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def now() -> datetime:
    return datetime.now(UTC)


def rfc3339_of(moment: datetime) -> str:
    """`2026-01-31T09:26:53.589Z`: milliseconds, always UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_rfc3339(text: str) -> datetime:
    """Raises ValueError for text that is not a time with a zone, and TypeError for any other type."""
    # Python 3.10 cannot parse the Z. `fromisoformat` raises the TypeError for other types.
    moment = datetime.fromisoformat(text[:-1] + "+00:00" if isinstance(text, str) and text.endswith("Z") else text)
    if moment.tzinfo is None:
        raise ValueError(f"expected an RFC 3339 time with a zone such as 2026-01-31T09:26:53Z, found {text!r}")
    return moment.astimezone(UTC)


def find_duration(text: str) -> timedelta | None:
    """`90s`, `30m`, `1h` or `7d`; None for any other text."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    return timedelta(seconds=int(found[1]) * _UNITS_SEC[found[2]]) if found else None
