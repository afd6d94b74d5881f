"""Repeated warnings are logged once a minute, with a count."""

import json
import logging

from sless.log import REPEAT_SEC, RepeatFilter, _JsonFormatter


def passed(messages: list[tuple[float, str]], level: int = logging.WARNING) -> list[str]:
    repeats, found = RepeatFilter(), []
    for at, text in messages:
        record = logging.LogRecord("sless.kube", level, __file__, 1, "%s", (text,), None)
        record.created = at
        if repeats.filter(record):
            found.append(record.getMessage())
    return found


def test_a_repeated_warning_passes_once_and_is_counted():
    given = [(second / 2, f"the cluster cannot be seen: <HTTPSConnection at 0x{second:x}>") for second in range(120)]
    first = given[0][1]
    assert passed(given) == [first]
    assert passed([*given, (REPEAT_SEC, first)]) == [first, f"{first} (repeated 119 more times in 60 s)"]


def test_other_messages_and_lower_levels_pass():
    assert passed([(0.0, "a"), (0.1, "b"), (0.2, "a")]) == ["a", "b"]
    assert passed([(0.0, "a"), (0.1, "a")], logging.INFO) == ["a", "a"]


def test_a_warning_after_a_quiet_period_passes_without_a_count():
    assert passed([(0.0, "a"), (REPEAT_SEC + 1, "a")]) == ["a", "a"]


def test_fields_of_a_record_are_fields_of_its_json_line():
    record = logging.LogRecord("sless.audit", logging.INFO, __file__, 1, "changed", (), None)
    record.fields = {"audit": {"sub": "alice"}}
    line = json.loads(_JsonFormatter().format(record))
    assert (line["message"], line["audit"]) == ("changed", {"sub": "alice"})
