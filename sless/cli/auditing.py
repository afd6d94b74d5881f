"""`audit`."""

from itertools import islice
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.options import since_of
from sless.cli.output import print_json, print_table, say, text_of


@click.command()
@click.argument("name", required=False)
@click.option("--since", default=None, metavar="TIME", help="Only changes since TIME: 10m, 2h, 3d, or an RFC 3339 time.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, metavar="N", help="Maximum number of changes.")
@click.option("--all", "everyone", is_flag=True, help="Of all tenants and of the installation itself, for operators.")
@client_command
def audit(context: CommandContext, name: str | None, since: str | None, limit: int, everyone: bool) -> None:
    """Show who changed what in the namespace, newest first; with NAME, only changes of that resource.

    \b
    Examples:
      sless audit --since 1d
      sless audit hello --output json
      sless audit --all
    """
    found = list(islice(context.client.audit(everyone=everyone, name=name, since=since_of(since), limit=min(limit, 1000)), limit))
    if context.as_json:
        print_json(found)
    elif found:
        header = ("TIME", "ACTION", "NAME", "CHANGES", "SUB", "ADDRESS", "REQUEST")
        if everyone:
            print_table(("NAMESPACE", *header), [(entry["namespace"], *_row_of(entry)) for entry in found])
        else:
            print_table(header, map(_row_of, found))
    else:
        say("No changes")


def _row_of(entry: dict[str, Any]) -> tuple[object, ...]:
    changes = ", ".join(map(_change_text, entry["changes"]))
    return entry["time"], entry["action"], entry["name"], changes, entry["sub"], entry["address"], entry["request_id"]


def _change_text(change: dict[str, Any]) -> str:
    if "to" not in change:
        return str(change["field"])
    if change.get("from") is None:
        return f"{change['field']}={text_of(change['to'])}"
    return f"{change['field']} {text_of(change['from'])} to {text_of(change['to'])}"
