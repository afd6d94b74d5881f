"""`import-operator`: imports tenants of the earlier operator."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.output import print_json, print_table, say
from sless.cli.server_commands import ServerCommand, load_settings
from sless.client import Client, ClientError
from sless.errors import ConfigError, SlessError


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRow:
    """`action` is created, updated, unchanged or failed; in a dry run, would create, would update (what differs), or failed."""

    namespace: str
    kind: str
    name: str
    action: str
    notes: str


@click.command("import-operator", cls=ServerCommand)
@click.option(
    "--kubeconfig",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="F",
    help="Kubeconfig of its cluster.",
)
@click.option("--dry-run", is_flag=True, help="List what would be imported, and import nothing.")
@client_command
def import_operator(context: CommandContext, kubeconfig: Path, dry_run: bool) -> None:
    """Import functions, services, jobs and triggers of the earlier operator, for the same tenants.

    Needs an operator's token, and SLESS_S3_ENDPOINT, SLESS_S3_ACCESS_KEY and SLESS_S3_SECRET_KEY of the storage with its code; a dry run,
    too. Does not run jobs. Safe to repeat: existing resources are updated.

    \b
    Example:
      sless import-operator --kubeconfig old.yaml --dry-run
    """
    settings = load_settings()
    from sless.app.earlier import read_code, read_plans

    rows: list[ImportedRow] = []
    for plan in read_plans(settings, kubeconfig):
        notes = list(plan.notes)
        action = "failed"
        if plan.problem:
            notes.insert(0, plan.problem)
        else:
            client = context.client.within(plan.namespace)
            try:
                package = read_code(settings, plan)
                action = _planned(client, plan) if dry_run else _import(client, plan, package)
            except (ClientError, SlessError, ConfigError) as error:
                notes.insert(0, str(getattr(error, "message", error)))
        rows.append(ImportedRow(namespace=plan.namespace, kind=plan.kind, name=plan.name, action=action, notes="; ".join(notes)))
    _print(context, rows)


def _planned(client: Client, plan: Any) -> str:
    try:
        _resources_of(client, plan).get(plan.name)
    except ClientError as error:
        if error.status != 404:
            raise
        return "would create"
    return "would update"


def _resources_of(client: Client, plan: Any) -> Any:
    return {"function": client.functions, "service": client.services, "job": client.jobs, "trigger": client.triggers}[plan.kind]


def _import(client: Client, plan: Any, package: bytes | None) -> str:
    """Creates or updates one object."""
    client.ensure_namespace()
    resources = _resources_of(client, plan)
    action = "created"
    try:
        resources.create(plan.body)
    except ClientError as error:
        if error.status != 409:
            raise
        fields = {name: value for name, value in plan.body.items() if name not in ("name", "type")}
        before = resources.get(plan.name)
        action = "unchanged"
        if any(before.get(name) != value for name, value in fields.items()):
            after = resources.merge(plan.name, fields)
            action = "unchanged" if before.get("updated_at") == after.get("updated_at") else "updated"
    if package is not None:
        answer = resources.upload(plan.name, package)
        action = "updated" if action == "unchanged" and "already has this code" not in answer.get("message", "") else action
    if plan.kind == "job" and plan.run_id:
        client.import_run(plan.name, plan.run_id, plan.result)
    return action


def _print(context: CommandContext, rows: list[ImportedRow]) -> None:
    columns = ("namespace", "kind", "name", "action", "notes")
    if context.as_json:
        print_json([{name: getattr(row, name) for name in columns} for row in rows])
    elif rows:
        print_table(tuple(map(str.upper, columns)), [[getattr(row, name) for name in columns] for row in rows])
    failed = sum(row.action == "failed" for row in rows)
    say(f"{len(rows)} objects, {failed} of them cannot be imported")
    if failed:
        raise click.exceptions.Exit(1)
