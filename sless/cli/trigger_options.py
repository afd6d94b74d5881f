"""Options of `sless trigger create` and `update`, and the JSON fields they become."""

import functools
import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from sless.cli.calling import text_of_option

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
EVENT_HELP = "The event: JSON, a file with it, or - for stdin."

HTTP = (
    click.option(
        "--method",
        "methods",
        multiple=True,
        metavar="M",
        type=click.Choice(METHODS, case_sensitive=False),
        help="Only these methods; may be repeated. Else all.",
    ),
    click.option(
        "--auth", type=click.Choice(["none", "token", "key"]), help="What a call must carry: nothing, a token of yours, or X-Sless-Key."
    ),
    click.option("--rate-limit", type=click.IntRange(min=0), metavar="N", help="Calls per minute; 0: no limit."),
    click.option(
        "--cors-origin", "allow_origins", multiple=True, metavar="ORIGIN", help="Origin that scripts may call from, or *; may be repeated."
    ),
    click.option("--cors-method", "allow_methods", multiple=True, metavar="M", help="Method that scripts may use; else the trigger's."),
    click.option(
        "--cors-header", "allow_headers", multiple=True, metavar="NAME", help="Header that scripts may send; else what they ask for."
    ),
    click.option("--cors-expose", "expose_headers", multiple=True, metavar="NAME", help="Header that scripts may read."),
    click.option("--cors-credentials", "allow_credentials", is_flag=True, default=None, help="Cookies and Authorization may be sent."),
    click.option(
        "--cors-max-age", "max_age_sec", type=click.IntRange(0, 86400), metavar="SEC", help="How long a browser remembers the answer."
    ),
)
CRON = (
    click.option("--timezone", metavar="ZONE", help="IANA time zone of the schedule, such as Europe/Berlin; else UTC."),
    click.option("--event", "event_json", metavar="JSON|@FILE|-", help=EVENT_HELP),
    click.option("--overlap", type=click.Choice(["allow", "forbid"]), help="Whether a firing may begin while the one before still runs."),
    click.option(
        "--grace", "misfire_grace_seconds", type=click.IntRange(0, 86400), metavar="SEC", help="How late a firing may begin; else 60."
    ),
    click.option(
        "--pre-warm",
        "pre_warm_seconds",
        type=click.IntRange(0, 3600),
        metavar="SEC",
        help="How long before a firing an instance is started; else 300.",
    ),
)
EVENT = (
    click.option("--amqp-url", metavar="URL|@FILE|-", help="Broker; else the operator's. @FILE and - keep it out of the process list."),
    click.option("--prefetch", type=click.IntRange(1, 1000), metavar="N", help="Messages taken ahead."),
    click.option("--max-concurrency", type=click.IntRange(1, 1000), metavar="N", help="Calls at once."),
    click.option("--max-attempts", type=click.IntRange(1, 100), metavar="N", help="Attempts before a message is given up."),
)
_CORS = ("allow_origins", "allow_methods", "allow_headers", "expose_headers", "allow_credentials", "max_age_sec")


def with_options(*options: Option[Any]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        return functools.reduce(lambda made, option: option(made), reversed(options), command)

    return decorate


def fields_of(options: dict[str, Any], cors: dict[str, Any] | None = None) -> dict[str, Any]:
    """The JSON fields of what was given. `cors` is what the trigger has already: the options add to it."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    changed = {name: given.pop(name) for name in _CORS if name in given}
    fields: dict[str, Any] = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    if changed:
        fields["cors"] = (cors or {}) | {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}
    if fields.get("rate_limit") == 0:
        fields["rate_limit"] = None
    if "event_json" in fields:
        fields["event_json"] = json_of_option("--event", fields["event_json"])
    if str(fields.get("amqp_url", "")).startswith(("@", "-")):
        fields["amqp_url"] = _utf8_of("--amqp-url", fields["amqp_url"]).strip()
    return fields


def json_of_option(option: str, text: str) -> str:
    """The JSON text itself, checked. Raises UsageError."""
    found = _utf8_of(option, text)
    try:
        json.loads(found)
    except ValueError as error:
        raise click.UsageError(f"{option}: expected JSON, found {found[:40]!r}: {error}") from error
    return found


def _utf8_of(option: str, text: str) -> str:
    """As text_of_option, without a byte order mark."""
    data = text_of_option(option, text)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Not the text itself: it may be a password.
        raise click.UsageError(f"{option}: expected UTF-8 text, found byte 0x{data[error.start]:02x} at {error.start}") from error
