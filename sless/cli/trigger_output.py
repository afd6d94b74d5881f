"""Triggers as text."""

from typing import Any

import click

from sless.cli.connection import CommandContext
from sless.cli.output import print_json, print_table, say


def print_triggers(context: CommandContext, found: list[dict[str, Any]]) -> None:
    if context.as_json:
        print_json(found)
    elif found:
        table_of(found)
    else:
        say("No triggers")


def table_of(found: list[dict[str, Any]]) -> None:
    columns = ("name", "type", "function_ref", "enabled", "active", "what", "next_schedule_time", "last_status", "message")
    rows = [[(item | {"what": _what(item)}).get(column) for column in columns] for item in found]
    print_table(("TRIGGER", "TYPE", "FUNCTION", "ENABLED", "ACTIVE", "WHAT", "NEXT", "LAST", "MESSAGE"), rows)


def _what(item: dict[str, Any]) -> object:
    return item.get("url") or item.get("schedule") or item.get("queue")


def print_change(context: CommandContext, made: dict[str, Any], verb: str) -> None:
    """Prints the key or the URL to stdout, for scripts."""
    if context.as_json:
        print_json(made)
        return
    following = f": next at {made['next_schedule_time']}" if made.get("next_schedule_time") else ""
    say(f'{verb} {made["type"]} trigger "{made["name"]}"{following or (": " + made["message"] if made.get("message") else "")}')
    if made.get("api_key"):
        say("API key for the header X-Sless-Key, shown only once:")
    if made.get("api_key") or made.get("url"):
        click.echo(made.get("api_key") or made.get("url"))
