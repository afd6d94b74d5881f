"""Options of `sless trigger create` and `update`, and the JSON fields they set."""

from typing import Any

import click

from sless.cli.options import EVENT_HELP, json_of_option, text_of_option

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

HTTP = (
    click.option(
        "--method",
        "methods",
        multiple=True,
        metavar="M",
        type=click.Choice(METHODS, case_sensitive=False),
        help="Allowed method; repeatable. Default: all.",
    ),
    click.option(
        "--auth", type=click.Choice(["none", "token", "key"]), help="What a call needs: nothing, a token of yours, or X-Sless-Key."
    ),
    click.option("--rate-limit", type=click.IntRange(min=0), metavar="N", help="Calls per minute; 0 is no limit."),
    click.option("--callbacks/--no-callbacks", default=None, help="With --auth none: whether callers may ask for callbacks. Default: no."),
    click.option("--cors-origin", "allow_origins", multiple=True, metavar="ORIGIN", help="Allowed origin, or *; repeatable."),
    click.option("--cors-method", "allow_methods", multiple=True, metavar="M", help="Allowed method; default: the trigger's."),
    click.option("--cors-header", "allow_headers", multiple=True, metavar="NAME", help="Allowed request header; default: those requested."),
    click.option("--cors-expose", "expose_headers", multiple=True, metavar="NAME", help="Response header that scripts may read."),
    click.option("--cors-credentials", "allow_credentials", is_flag=True, default=None, help="Allow cookies and Authorization."),
    click.option("--cors-max-age", "max_age_sec", type=click.IntRange(0, 86400), metavar="SEC", help="How long browsers cache the answer."),
)
CRON = (
    click.option("--timezone", metavar="ZONE", help="IANA time zone such as Europe/Berlin; default: UTC."),
    click.option("--event", "event_json", metavar="JSON|@FILE|-", help=EVENT_HELP),
    click.option("--overlap", type=click.Choice(["allow", "forbid"]), help="Whether a firing may start while the previous one runs."),
    click.option(
        "--grace", "misfire_grace_seconds", type=click.IntRange(0, 86400), metavar="SEC", help="How late a firing may start; default: 60."
    ),
    click.option(
        "--pre-warm",
        "pre_warm_seconds",
        type=click.IntRange(0, 3600),
        metavar="SEC",
        help="Start an instance this long before a firing; default: 300.",
    ),
)
EVENT = (
    click.option("--amqp-url", metavar="URL|@FILE|-", help="Broker; default: the operator's. @FILE and - keep it out of the process list."),
    click.option("--prefetch", type=click.IntRange(1, 1000), metavar="N", help="Messages fetched in advance."),
    click.option("--max-concurrency", type=click.IntRange(1, 1000), metavar="N", help="Calls at the same time."),
    click.option("--max-attempts", type=click.IntRange(1, 100), metavar="N", help="Attempts before a message is dead-lettered."),
)
_CORS = ("allow_origins", "allow_methods", "allow_headers", "expose_headers", "allow_credentials", "max_age_sec")


def fields_of(options: dict[str, Any], cors: dict[str, Any] | None = None) -> dict[str, Any]:
    """The JSON fields for the given options. `cors` is the trigger's current value, which the options extend."""
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
        fields["amqp_url"] = text_of_option("--amqp-url", fields["amqp_url"]).strip()
    return fields
