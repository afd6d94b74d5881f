"""`list`, `describe`, `triggers`."""

from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.output import age_of, print_json, print_resource, print_table, say
from sless.cli.trigger_output import print_triggers, table_of
from sless.client import Client
from sless.client.deployment import get_workload

DESCRIBED = (
    "name", "kind", "namespace", "phase", "message", "url", "runtime", "entrypoint", "active_version", "latest_version", "latest_state",
    "instances", "min_instances", "max_instances", "idle_seconds", "replicas", "memory_mb", "timeout_sec", "concurrency", "env_vars",
    "description", "code_sha256", "created_at", "updated_at", "last_built_at",
)  # fmt: skip


@click.command("list")
@client_command
def list_workloads(context: CommandContext) -> None:
    """List the functions and services of the namespace.

    \b
    Example:
      sless list --output json
    """
    found = [
        {"kind": workloads.kind} | resource
        for workloads in (context.client.functions, context.client.services)
        for resource in workloads.list()
    ]
    if context.as_json:
        print_json(found)
        return
    rows = [
        (item["name"], item["kind"], item.get("runtime"), item.get("phase"), instances_of(item), item.get("active_version"),
         age_of(item.get("updated_at")),
         item.get("url") or item.get("message"))
        for item in sorted(found, key=lambda item: item["name"])
    ]  # fmt: skip
    if rows:
        print_table(("NAME", "KIND", "RUNTIME", "PHASE", "INSTANCES", "VERSION", "UPDATED", "URL"), rows)
    else:
        say("No functions or services; `sless deploy` creates one")


@click.command()
@click.argument("name")
@click.option("--service", is_flag=True, help="NAME is a service.")
@client_command
def describe(context: CommandContext, name: str, service: bool) -> None:
    """Show a function or service and its triggers.

    \b
    Example:
      sless describe hello
    """
    workloads, resource = get_workload(context.client, name, "service" if service else None)
    resource = {"kind": workloads.kind} | resource
    triggers = _triggers_of(context.client, name)
    if context.as_json:
        print_json(resource | {"triggers": triggers})
        return
    print_resource({key: resource.get(key) for key in DESCRIBED} | {"instances": instances_of(resource)}, DESCRIBED)
    if triggers:
        click.echo()
        table_of(triggers)


@click.command()
@client_command
def triggers(context: CommandContext) -> None:
    """List the triggers of the namespace, as `sless trigger list` does.

    \b
    Example:
      sless triggers
    """
    print_triggers(context, list(context.client.triggers.list()))


def instances_of(resource: dict[str, Any]) -> str | None:
    """Ready instances and their maximum, `2/5`; None if the server does not report them."""
    ready, most = resource.get("ready_instances"), resource.get("max_instances")
    return None if ready is None else f"{ready}/{most}"


def _triggers_of(client: Client, name: str) -> list[dict[str, Any]]:
    return [trigger for trigger in client.triggers.list() if trigger.get("function_ref") == name]
