"""Option types and values that several commands share."""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from sless.clock import find_duration, now, parse_rfc3339, rfc3339_of

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]

EVENT_HELP = "Event: JSON, @FILE, or - for stdin."


class EnvPair(click.ParamType):
    name = "K=V"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = str(value).partition("=")
        if not equals or not key:
            self.fail(f"expected NAME=VALUE, found {value!r}", param, ctx)
        return key, text


def with_options(*options: Option[Any]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        return functools.reduce(lambda made, option: option(made), reversed(options), command)

    return decorate


def since_of(text: str | None) -> str | None:
    """RFC 3339 time for an age such as `10m`, or for a time. Raises UsageError."""
    if text is None:
        return None
    try:
        age = find_duration(text)
        return rfc3339_of(parse_rfc3339(text) if age is None else now() - age)
    except (ValueError, OverflowError) as error:  # OverflowError: before the year 1
        raise click.UsageError(f"--since: expected 30s, 10m, 2h, 3d or an RFC 3339 time, found {text!r}") from error


def bytes_of_option(option: str, text: str) -> bytes:
    """`-` reads stdin, `@FILE` a file; anything else is the text itself. Raises UsageError."""
    if text == "-":
        return sys.stdin.buffer.read()
    if not text.startswith("@"):
        return text.encode(errors="surrogateescape")
    try:
        return Path(text[1:]).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{option}: cannot read {text[1:]!r}: {error.strerror}") from error


def text_of_option(option: str, text: str) -> str:
    """Like `bytes_of_option`, decoded and without a byte order mark."""
    data = bytes_of_option(option, text)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The text may be a password: do not print it.
        raise click.UsageError(f"{option}: expected UTF-8 text, found byte 0x{data[error.start]:02x} at {error.start}") from error


def json_of_option(option: str, text: str) -> str:
    """The text, checked to be JSON. Raises UsageError."""
    found = text_of_option(option, text)
    try:
        json.loads(found)
    except ValueError as error:
        raise click.UsageError(f"{option}: expected JSON, found {found[:40]!r}: {error}") from error
    return found
