"""README.md matches the product: settings, commands and options."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest

from sless.cli.main import HOMES, group
from sless.cli.older_settings import OLDER_NAMES
from sless.client.packing import BUILT_IN
from sless.config import CLIENT_NAMES, PREFIX, Settings, shown

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHART_README = (ROOT / "helm" / "sless" / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(SLESS_\w+)` \| ([^|]*) \| (.*) \|$", CHART_README, re.MULTILINE)
"""Name, default and meaning of the cluster settings; `sless config` has all settings."""
NAMES = {PREFIX + item.name.upper() for item in fields(Settings)}


def command_lines() -> list[list[str]]:
    """The words of each `sless …` line in a code block."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    found = [match[1] for line in lines if (match := re.match(r"(?:\$ )?(sless [^|#>&]*)", line))]
    return [shlex.split(line) for line in found]


@pytest.mark.parametrize("text", [README, CHART_README], ids=["README", "helm/sless/README"])
def test_every_named_setting_exists(text):
    known = NAMES | {PREFIX + name for name in CLIENT_NAMES} | {f"{name}_FILE" for name in NAMES}
    named = set(re.findall(r"\bSLESS_[A-Z0-9_]+[A-Z0-9](?![A-Z0-9_*])", text)) - {"SLESS_X_FILE"}
    assert named and named <= known


def test_defaults_in_the_table_are_the_real_ones():
    values = {name: value for name, value, _ in shown(Settings())}
    for name, default, _ in ROWS:
        assert default.strip().strip("`") == values[name], name


@pytest.mark.parametrize("name", OLDER_NAMES)
def test_older_names_are_mapped(name):
    text = README.split("Older names are not read: ")[1].split("\n\n")[0]
    prefixed, _, renamed = text.partition("now start with `SLESS_`")
    others = dict(re.findall(r"`(\w+)` is\s`SLESS_(\w+)`", renamed))
    assert (others.get(name) or (name if f"`{name}`" in prefixed else "")) == OLDER_NAMES[name]


def test_what_is_not_uploaded_is_listed():
    paragraph = next(part for part in README.split("\n\n") if part.startswith("Not uploaded: "))
    assert [pattern for pattern in BUILT_IN if f"`{pattern.rstrip('/')}`" not in paragraph] == []


def test_every_command_is_mentioned():
    assert [name for name in HOMES if f"sless {name}" not in README] == []


def test_shown_commands_parse():
    lines = command_lines()
    assert len(lines) >= 8
    for words in lines:
        command = group.get_command(click.Context(group), words[1])
        assert command, words
        command.make_context(words[1], words[2:], resilient_parsing=False)


def test_the_two_commands_come_first():
    first_block = README.split("```")[1]
    assert "make demo" in first_block
    assert "make test" in first_block
