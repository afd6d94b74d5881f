"""The group `operator`: tenants, suspension and tokens."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.output import print_json, print_table, say
from sless.client.deployment import get_workload

_limited = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, metavar="N", help="Maximum number of rows."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def operator() -> None:
    """List and suspend tenants, revoke tokens, list failures and queues. For subjects in SLESS_OPERATOR_SUBS.

    \b
    Examples:
      sless operator tenants
      sless operator suspend sless-0123456789abcdef --reason 'mining; contact support'
      sless operator revoke-token --jti a0123456789abcdef012
    """


@operator.command()
@click.option("--suspended", is_flag=True, help="Only suspended tenants.")
@client_command
def tenants(context: CommandContext, suspended: bool) -> None:
    """List all tenants with their resources and the usage of the last 31 days.

    \b
    Example:
      sless operator tenants --suspended
    """
    found = list(context.client.tenants(suspended="true" if suspended else None))
    if context.as_json:
        print_json(found)
    elif found:
        header = ("NAMESPACE", "FUNCTIONS", "SERVICES", "JOBS", "TRIGGERS", "CALLS", "ERRORS", "GB_SECONDS", "SUSPENDED")
        print_table(header, map(_row_of, found))
    else:
        say("No tenants")


@operator.command()
@click.argument("tenant", metavar="NAMESPACE")
@click.argument("name", required=False)
@click.option("--reason", default="", metavar="TEXT", help="Shown to the tenant.")
@client_command
def suspend(context: CommandContext, tenant: str, name: str | None, reason: str) -> None:
    """Suspend a tenant, or one function, service or job of it.

    Calls get a 503, instances and runs stop, triggers do not fire, and the tenant cannot change anything.

    \b
    Example:
      sless operator suspend sless-0123456789abcdef hello --reason 'port scans'
    """
    client = context.client.within(tenant)
    _print(context, client.suspend(*_path_of(context, tenant, name), reason=reason), f"{name or tenant} is suspended")


@operator.command()
@click.argument("tenant", metavar="NAMESPACE")
@click.argument("name", required=False)
@client_command
def resume(context: CommandContext, tenant: str, name: str | None) -> None:
    """End a suspension.

    \b
    Example:
      sless operator resume sless-0123456789abcdef
    """
    found = context.client.within(tenant).resume(*_path_of(context, tenant, name))
    left = " still suspended with its namespace" if name and found["suspended"] is not None else " no longer suspended"
    _print(context, found, f"{name or tenant} is{left}")


@operator.command("revoke-token")
@click.option("--jti", default="", metavar="ID", help="The token's claim `jti`.")
@click.option("--leaked", default="", metavar="TOKEN", help="The token itself.")
@click.option("--reason", default="", metavar="TEXT", help="Kept with it.")
@client_command
def revoke_token(context: CommandContext, jti: str, leaked: str, reason: str) -> None:
    """Revoke a token. All servers refuse it within a second.

    \b
    Example:
      sless operator revoke-token --jti a0123456789abcdef012
    """
    if bool(jti) == bool(leaked):
        raise click.UsageError("expected either --jti or --leaked")
    found = context.client.revoke_token({"jti": jti} | {"reason": reason} if jti else {"token": leaked, "reason": reason})
    _print(context, found, f"Token {found['jti']} is revoked")


@operator.command("revoked-tokens")
@client_command
def revoked_tokens(context: CommandContext) -> None:
    """List revoked tokens that have not expired.

    \b
    Example:
      sless operator revoked-tokens
    """
    _print_rows(context, context.client.operator_list("revoked-tokens"), ("jti", "sub", "revoked_at", "expires_at", "reason"))


@operator.command("failing-builds")
@_limited
@client_command
def failing_builds(context: CommandContext, limit: int) -> None:
    """List functions, services and jobs whose newest version failed to build.

    \b
    Example:
      sless operator failing-builds
    """
    columns = ("namespace", "kind", "name", "version", "active_version", "failed_at", "message")
    _print_rows(context, _newest(context, "failing-builds", limit), columns)


@operator.command("reconcile-errors")
@_limited
@client_command
def reconcile_errors(context: CommandContext, limit: int) -> None:
    """List internal errors of the control loops, newest first.

    \b
    Example:
      sless operator reconcile-errors
    """
    columns = ("loop", "namespace", "name", "count", "last_at", "message")
    _print_rows(context, _newest(context, "reconcile-errors", limit), columns)


@operator.command()
@client_command
def queues(context: CommandContext) -> None:
    """Show how many calls, builds, runs, callbacks and notices are waiting, and since when.

    Calls that wait for an instance are those of the replica of the server that answers.

    \b
    Example:
      sless operator queues
    """
    _print_rows(context, context.client.operator_list("queues"), ("queue", "waiting", "due_at"))


@operator.command()
@click.argument("sha256")
@click.option("--reason", default="", metavar="TEXT", help="Kept with it.")
@click.option("--undo", is_flag=True, help="Check this content again.")
@client_command
def allow(context: CommandContext, sha256: str, reason: str, undo: bool) -> None:
    """Allow code that the code checks refuse, by its content hash, which is in the server's log.

    \b
    Example:
      sless operator allow 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    """
    if undo:
        context.client.disallow_code(sha256)
        say(f"Code {sha256} is checked again")
    else:
        _print(context, context.client.allow_code(sha256, reason), f"Code {sha256} is allowed")


@operator.command()
@click.option("--from", "first", default=None, metavar="DATE", help="First day; default: the first of this month (UTC).")
@click.option("--to", "last", default=None, metavar="DATE", help="Last day; default: today.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@client_command
def usage(context: CommandContext, first: str | None, last: str | None, as_csv: bool) -> None:
    """Show what each tenant used per day, for billing.

    \b
    Example:
      sless operator usage --from 2026-01-01 --to 2026-01-31 --csv
    """
    params = {name: value for name, value in (("from", first), ("to", last)) if value is not None}
    if as_csv:
        click.echo(context.client.billing_csv(params).decode(), nl=False)
        return
    found = context.client.billing(params, everyone=True)
    if context.as_json:
        print_json(found)
    elif found:
        print_table(tuple(map(str.upper, found[0])), [tuple(row.values()) for row in found])
    else:
        say("No usage")


def _path_of(context: CommandContext, namespace: str, name: str | None) -> tuple[str, ...]:
    """Path of a workload below its tenant. The name is that of a job if there is no such function or service."""
    if name is None:
        return ()
    client = context.client.within(namespace)
    if any(job["name"] == name for job in client.jobs.list()):
        return "jobs", name
    workloads, _ = get_workload(client, name, None)
    return f"{workloads.kind}s", name


def _newest(context: CommandContext, what: str, limit: int) -> Iterator[dict[str, Any]]:
    return islice(context.client.operator_list(what, limit=min(limit, 1000)), limit)


def _print_rows(context: CommandContext, found: Iterable[dict[str, Any]], columns: tuple[str, ...]) -> None:
    if context.as_json:
        print_json(list(found))
    else:
        print_table(tuple(map(str.upper, columns)), [[item[column] for column in columns] for item in found])


def _print(context: CommandContext, found: dict[str, Any], text: str) -> None:
    if context.as_json:
        print_json(found)
    else:
        say(text)


def _row_of(tenant: dict[str, Any]) -> tuple[object, ...]:
    counts, usage, suspended = tenant["counts"], tenant["usage"], tenant["suspended"]
    shown = "no" if suspended is None else suspended["reason"] or "yes"
    numbers = (counts["functions"], counts["services"], counts["jobs"], counts["triggers"])
    return tenant["namespace"], *numbers, usage["invocations"], usage["errors"], usage["gb_seconds"], shown
