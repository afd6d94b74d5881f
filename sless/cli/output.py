"""Output as aligned text or JSON."""

import json
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from sless import clock


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Separates columns by two spaces; prints `-` for a missing value, and only the first line of a value."""
    texts = [tuple(header), *(tuple(text_of(value).split("\n", 1)[0] for value in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for line in texts:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """`name  value` lines; further lines of a value are indented."""
    pairs = [(name, text_of(value)) for name, value in fields]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, text in pairs:
        first, *more = text.split("\n")
        click.echo(f"{name.ljust(width)}  {first}".rstrip())
        for line in more:
            click.echo(" " * (width + 2) + line)


def print_resource(found: Mapping[str, Any], first: Sequence[str], left_out: Collection[str] = ()) -> None:
    """Non-empty fields: those of `first`, then the others except `left_out`."""
    names = [*first, *(key for key in found if key not in first and key not in left_out)]
    print_fields((key, found[key]) for key in names if found.get(key) not in (None, "", {}, []))


def text_of(value: object) -> str:
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case dict():
            return "\n".join(f"{key}={item if isinstance(item, str) else text_of(item)}" for key, item in value.items()) or "-"
        case list() | tuple():
            return ", ".join(map(text_of, value)) or "-"
    return str(value)


def age_of(moment: str | None, now: datetime | None = None) -> str:
    """`42s`, `5m`, `3h`, `12d` since an RFC 3339 time."""
    if not moment:
        return "-"
    try:
        seconds = ((now or clock.now()) - clock.parse_rfc3339(moment)).total_seconds()
    except ValueError:
        return moment
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size * 2:
            return f"{int(seconds // size)}{unit}"
    return f"{max(int(seconds), 0)}s"


def say(text: str) -> None:
    """Prints progress and notes to stderr, because stdout has only the result."""
    click.echo(text, err=True)


def say_dim(text: str) -> None:
    """Prints output of another program, dimmed on a terminal."""
    click.echo(click.style(text, dim=True) if sys.stderr.isatty() else text, err=True)


class TerminalReport:
    """Prints the progress of a deployment to stderr."""

    def __init__(self, *, indent: str = "") -> None:
        self._indent = indent

    def step(self, text: str) -> None:
        say(self._indent + text)

    def log(self, line: str) -> None:
        say_dim(f"{self._indent}  | {line}")
