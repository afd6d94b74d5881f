"""The table of limits: settings, README and refusals agree with it."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from sless.config import Settings
from sless.domain.limits import LIMITS, LimitName, defaults_of, limits_of, refusal_of
from sless.errors import STATUS, SlessError

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| ([\d,]+) (\w+) \| `SLESS_(\w+)` \| (.+) \| (\d+|–) \|$", README, re.MULTILINE)


def test_every_limit_has_a_setting_and_every_limit_setting_a_limit():
    named = {limit.setting for limit in LIMITS.values()}
    assert set(LIMITS) == set(LimitName) and len(named) == len(LIMITS)
    assert {item.name for item in fields(Settings) if item.name.startswith("limit_")} <= named


def test_the_readme_lists_them_all():
    defaults = defaults_of(Settings())
    shown = [(name, int(most.replace(",", "")), unit, setting.lower(), text, status) for name, most, unit, setting, text, status in ROWS]
    assert shown == [
        (name, defaults[name], limit.unit, limit.setting, limit.text, str(STATUS[limit.code]) if limit.code else "–")
        for name, limit in LIMITS.items()
    ]


def test_own_values_replace_defaults_and_unknown_ones_have_no_effect():
    limits = limits_of(defaults_of(Settings(limit_jobs=7)), {"functions": 3, "later": 1})
    assert (limits[LimitName.FUNCTIONS], limits[LimitName.JOBS]) == (3, 7) and set(limits.values) == set(LimitName)


@pytest.mark.parametrize("name", [name for name, limit in LIMITS.items() if limit.code])
def test_a_refusal_names_the_limit_and_what_was_expected_and_found(name):
    limits = limits_of(defaults_of(Settings()), {name: 5})
    limits.check(name, 5)
    with pytest.raises(SlessError, match=rf"limit {name} .*at most 5 .*found 6 with this request") as caught:
        limits.check(name, 6)
    assert caught.value.code is LIMITS[name].code and caught.value.status in (403, 413, 429)
    assert refusal_of(name, 5, 6, 60).retry_after_sec == 60
