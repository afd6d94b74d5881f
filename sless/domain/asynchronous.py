"""Options of asynchronous calls, and the delay before a retry. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from sless.domain.addresses import Allowed
from sless.domain.callback import parse_callback_url
from sless.domain.durations import backoff_sec
from sless.errors import Detail, Invalid

CALLBACK_HEADER = "X-Sless-Callback-Url"
ATTEMPTS_HEADER = "X-Sless-Max-Attempts"
DEFAULT_ATTEMPTS = 3
MOST_ATTEMPTS = 10
LONGEST_DELAY_SEC = 300.0
LONGEST_RETRY_AFTER_SEC = 3600.0
JITTER = 0.2
"""Fraction by which delays vary, so that calls that failed together are not retried together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncOptions:
    max_attempts: int = DEFAULT_ATTEMPTS
    callback_url: str | None = None


def options_of(max_attempts: str | None, callback_url: str | None, allowed: tuple[Allowed, ...]) -> AsyncOptions:
    """Options from the request headers. Raises Invalid."""
    attempts = DEFAULT_ATTEMPTS
    if max_attempts is not None:
        text = max_attempts.strip()
        attempts = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
        if not 1 <= attempts <= MOST_ATTEMPTS:
            message = f"expected a whole number from 1 to {MOST_ATTEMPTS}, found {text[:40]!r}"
            raise Invalid(Detail(field=ATTEMPTS_HEADER, message=message))
    if callback_url is not None:
        parse_callback_url(callback_url, allowed, field=CALLBACK_HEADER)
    return AsyncOptions(max_attempts=attempts, callback_url=callback_url)


def delay_sec_of(attempts: int, jitter: float, headers: Mapping[str, str], now: datetime) -> float:
    """Seconds until the next attempt after `attempts` that failed. `jitter` is from -1 to 1; `headers` (lower-case names) may carry a
    Retry-After, which is never undercut."""
    own = backoff_sec(attempts, first_sec=2.0, max_sec=LONGEST_DELAY_SEC) * (1 + JITTER * jitter)
    return max(own, retry_after_sec_of(headers.get("retry-after", ""), now))


def retry_after_sec_of(text: str, now: datetime) -> float:
    """Parses a Retry-After header (seconds or a date): 0 if missing or malformed, at most one hour."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:10]), LONGEST_RETRY_AFTER_SEC)
    try:
        moment = parsedate_to_datetime(text)
        wait_sec = (moment - now) / timedelta(seconds=1)
    except (ValueError, TypeError, OverflowError):  # TypeError: a date without a zone
        return 0.0
    return min(max(wait_sec, 0.0), LONGEST_RETRY_AFTER_SEC)
