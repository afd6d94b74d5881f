"""Formats numbers, sizes and times for pages, in the same way as `static/console/core/dom.js`."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context

from sless.clock import rfc3339_of

_SIZES = {"en": ("B", "KB", "MB", "GB"), "ru": ("Б", "КБ", "МБ", "ГБ")}
_TIMES = {"en": ("ms", "s"), "ru": ("мс", "с")}
NOTHING = "–"


def number_of(value: float, language: str, digits: int = 3) -> str:
    """With this number of significant digits: `0.5`, `12.3`, `1020`."""
    return _localised(f"{float(f'{value:.{digits}g}'):g}", language)


def percent_of(share: float, language: str) -> str:
    """`0.5 %`, `33 %`, `100 %`"""
    return f"{number_of(share, language, 2)}\u00a0%"


def milliseconds_of(duration_ms: float | None, language: str) -> str:
    if duration_ms is None:
        return NOTHING
    ms, sec = _TIMES[language]
    return (
        f"{number_of(duration_ms, language)}\u00a0{ms}" if duration_ms < 1000 else f"{number_of(duration_ms / 1000, language)}\u00a0{sec}"
    )


def bytes_of(size: float, language: str) -> str:
    *units, largest = _SIZES[language]
    for unit in units:
        if size < 1024:
            return f"{number_of(size, language)}\u00a0{unit}"
        size = size / 1024
    return f"{number_of(size, language)}\u00a0{largest}"


def tenths_of(value: float, language: str) -> str:
    return _localised(f"{value:.1f}", language)


def minute_of(moment: datetime) -> str:
    """`2026-01-31 09:26 UTC`; scripts write it in the reader's zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def ticks_of(slots: Sequence[Sequence[int]], index: int, height: int) -> str:
    """The path of a bar chart: a line upwards from `height` for each slot, 8 wide. `index` 0: calls, 1: errors; both have one scale."""
    most = max((slot[0] for slot in slots), default=0)
    return "".join(
        f"M{at * 8 + 4} {height}V{round(height - max(2, slot[index] * (height - 1) / most), 1):g}"
        for at, slot in enumerate(slots)
        if slot[index]
    )


def _localised(number: str, language: str) -> str:
    return number.replace(".", ",") if language == "ru" else number


def _in_language(format_: Callable[[Any, str], str]) -> Callable[..., str]:
    """A filter that formats in the language of the page."""

    @pass_context
    def filter_(context: Context, value: Any) -> str:
        return format_(value, context["language"])

    return filter_


FILTERS: dict[str, Callable[..., str]] = {
    "iso": rfc3339_of,
    "minute": minute_of,
    "ticks": ticks_of,
    "percent": _in_language(percent_of),
    "ms": _in_language(milliseconds_of),
    "bytes": _in_language(bytes_of),
    "tenths": _in_language(tenths_of),
}
