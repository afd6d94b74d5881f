"""`invocations` (list, show, cancel, retry)."""

from itertools import islice
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.options import since_of
from sless.cli.output import print_fields, print_json, print_table, say
from sless.cli.waiting import await_invocation, print_ended_invocation
from sless.client.deployment import get_workload

COLUMNS = ("started_at", "status", "http_status", "duration_ms", "trigger", "version", "attempts", "id")
ATTEMPT_COLUMNS = ("number", "status", "http_status", "version", "started_at", "finished_at", "error")
NESTED = ("logs", "attempts_detail", "callback")


class ListByDefault(click.Group):
    """`sless invocations NAME` lists, unless the first word is a subcommand."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["list", *args])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Options before NAME belong to `list`."""
        asks = any(word in ctx.help_option_names for word in args[:1])
        return super().parse_args(ctx, args if not args or asks or not args[0].startswith("-") else ["list", *args])


@click.group(cls=ListByDefault, invoke_without_command=False, context_settings={"help_option_names": ["-h", "--help"]})
def invocations() -> None:
    """List the calls of a function or service, newest first; show, cancel or retry one.

    `sless invocations NAME [ID]` is short for `list` and `show`. For a function named `show`, use `sless invocations list show`.

    \b
    Examples:
      sless invocations hello --status failed --since 1h
      sless invocations hello $(sless invoke hello --async)
      sless invocations cancel hello ID
      sless invocations retry hello ID
    """


@invocations.command("list")
@click.argument("name")
@click.argument("invocation", metavar="[ID]", required=False)
@click.option("--status", default=None, metavar="S", help="Only this status: succeeded, failed, timeout, dead, queued, running …")
@click.option("--since", default=None, metavar="TIME", help="Only calls since TIME: 10m, 2h, 3d, or an RFC 3339 time.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, metavar="N", help="Maximum number of calls.")
@click.option("--service", is_flag=True, help="NAME is a service.")
@client_command
def list_invocations(context: CommandContext, name: str, invocation: str | None, service: bool, limit: int, **filters: Any) -> None:
    """List calls, newest first.

    With an ID or request ID, show that call.

    \b
    Example:
      sless invocations list hello --status dead
    """
    workloads, _ = get_workload(context.client, name, "service" if service else None)
    if invocation is not None:
        print_invocation(context, workloads.invocation(name, invocation))
        return
    filters["since"] = since_of(filters["since"])
    found = list(islice(workloads.invocations(name, limit=limit, **filters), limit))
    if context.as_json:
        print_json(found)
    elif found:
        print_table(tuple(map(str.upper, COLUMNS)), [[call.get(column) for column in COLUMNS] for call in found])
    else:
        say("No invocations")


@invocations.command()
@click.argument("name")
@click.argument("invocation", metavar="ID")
@click.option("--service", is_flag=True, help="NAME is a service.")
@client_command
def show(context: CommandContext, name: str, invocation: str, service: bool) -> None:
    """Show one call: result, attempts, callback and log lines. ID may be a request ID.

    \b
    Example:
      sless invocations show hello i0123456789abcdef0123
    """
    workloads, _ = get_workload(context.client, name, "service" if service else None)
    print_invocation(context, workloads.invocation(name, invocation))


@invocations.command()
@click.argument("name")
@click.argument("invocation", metavar="ID")
@click.option("--service", is_flag=True, help="NAME is a service.")
@client_command
def cancel(context: CommandContext, name: str, invocation: str, service: bool) -> None:
    """Cancel an asynchronous call.

    A queued call never starts; a running one is stopped.

    \b
    Example:
      sless invocations cancel hello i0123456789abcdef0123
    """
    workloads, _ = get_workload(context.client, name, "service" if service else None)
    found = workloads.cancel_invocation(name, invocation)
    if context.as_json:
        print_json(found)
    else:
        say(f"Invocation {found['id']} is {found['status']}")


@invocations.command()
@click.argument("name")
@click.argument("invocation", metavar="ID")
@click.option("--service", is_flag=True, help="NAME is a service.")
@click.option("--wait", is_flag=True, help="Wait for the call to end and print its result.")
@client_command
def retry(context: CommandContext, name: str, invocation: str, service: bool, wait: bool) -> None:
    """Run an asynchronous call again.

    It must be dead, failed, timed out or cancelled. Attempts continue to count.

    \b
    Examples:
      sless invocations retry hello i0123456789abcdef0123
      sless invocations retry hello i0123456789abcdef0123 --wait
    """
    workloads, _ = get_workload(context.client, name, "service" if service else None)
    accepted = workloads.retry_invocation(name, invocation)
    if wait:
        print_ended_invocation(context, await_invocation(workloads, name, accepted["id"]))
    elif context.as_json:
        print_json(accepted)
    else:
        say(f"Invocation {accepted['id']} is {accepted['status']}")


def print_invocation(context: CommandContext, found: dict[str, Any]) -> None:
    if context.as_json:
        print_json(found)
        return
    print_fields((key, value) for key, value in found.items() if key not in NESTED and value not in (None, ""))
    if callback := found.get("callback"):
        print_fields((f"callback {key}", value) for key, value in callback.items() if value not in (None, ""))
    if attempts := found.get("attempts_detail"):
        rows = [[_first_line(item.get(column)) for column in ATTEMPT_COLUMNS] for item in attempts]
        click.echo()
        print_table(("ATTEMPT", *map(str.upper, ATTEMPT_COLUMNS[1:])), rows)
    for line in found.get("logs", ()):
        click.echo(f"{line['time']} {line['stream']}: {line['text']}")


def _first_line(value: Any) -> Any:
    return value.partition("\n")[0] if isinstance(value, str) else value
