from datetime import timedelta

import pytest

from sless.clock import find_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", timedelta(seconds=90)), ("30m", timedelta(minutes=30)), ("1h", timedelta(hours=1)), ("7d", timedelta(days=7))],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert find_duration(text) == expected


@pytest.mark.parametrize("text", ["", "90", "h", "-1h", "1.5h", "1w", "1h30m", " 1h", "٣h", "1234567890s"])
def test_invalid_durations(text: str) -> None:
    assert find_duration(text) is None
