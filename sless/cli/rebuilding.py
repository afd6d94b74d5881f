"""`rebuild`: build the active code, or that of a version, on the current runtime image."""

import time
from dataclasses import dataclass
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.output import print_json, say
from sless.client.client import Client, Workloads
from sless.client.deployment import DeployFailed, get_workload, wait_built, wait_ready

WAIT_SEC = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildTarget:
    workloads: Workloads
    name: str
    number: int | None = None


@click.command()
@click.argument("name", required=False)
@click.argument("number", required=False, type=click.IntRange(min=1))
@click.option("--all", "every", is_flag=True, help="Every function and service with a working version.")
@click.option("--runtime", metavar="R", help="Every function and service with this runtime.")
@click.option("--all-namespaces", "-A", is_flag=True, help="In all namespaces; for operators.")
@click.option("--service", is_flag=True, help="NAME is a service.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the new versions are active.")
@client_command
def rebuild(
    context: CommandContext, name: str | None, number: int | None, every: bool, runtime: str | None, all_namespaces: bool, service: bool,
    no_wait: bool,
) -> None:  # fmt: skip
    """Build the active code, or that of version NUMBER, again on the current runtime image.

    No call fails: the old version serves until the new one is ready, and stays active if the build fails.

    \b
    Examples:
      sless rebuild hello
      sless rebuild hello 3
      sless rebuild --runtime python3.11
      sless rebuild --all --all-namespaces --no-wait
    """
    if (name is not None) + every + (runtime is not None) != 1:
        raise click.UsageError("expected exactly one of NAME, --all and --runtime")
    if name is not None and all_namespaces:
        raise click.UsageError("--all-namespaces needs --all or --runtime")
    if name is not None:
        workloads, _ = get_workload(context.client, name, "service" if service else None)
        targets = [RebuildTarget(workloads=workloads, name=name, number=number)]
    else:
        clients = [context.client.within(item["namespace"]) for item in context.client.namespaces()] if all_namespaces else [context.client]
        targets = [target for client in clients for target in _all_of(client, runtime)]
    begun = [(target, target.workloads.rebuild(target.name, target.number)) for target in targets]
    versions = [version if no_wait else _await(target, version, context) for target, version in begun]
    if context.as_json:
        print_json([version for version in versions if version is not None])
    elif no_wait:
        for target, version in begun:
            say(f'Version {version["version"]} of {target.workloads.kind} "{target.name}" is being built')
    if not begun:
        say("Nothing to rebuild")
    if None in versions:
        raise SystemExit(1)


def _all_of(client: Client, runtime: str | None) -> list[RebuildTarget]:
    return [
        RebuildTarget(workloads=workloads, name=resource["name"])
        for workloads in (client.functions, client.services)
        for resource in workloads.list()
        if resource.get("active_version") and runtime in (None, resource.get("runtime"))
    ]


def _await(target: RebuildTarget, version: dict[str, Any], context: CommandContext) -> dict[str, Any] | None:
    """Waits until the version is active, and returns it; prints why its build failed, and returns None."""
    number, deadline = int(version["version"]), time.monotonic() + WAIT_SEC
    try:
        built = wait_built(target.workloads, target.name, number, deadline)
        wait_ready(target.workloads, target.name, deadline, lambda found: (found.get("active_version") or 0) >= number)
    except DeployFailed as error:
        say(f"{target.workloads.kind} {error.message}; the previous version stays active")
        return None
    if not context.as_json:
        say(f'Version {number} of {target.workloads.kind} "{target.name}" is active')
    return dict(built)
