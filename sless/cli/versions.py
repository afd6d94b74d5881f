"""`versions`, `rollback`, `source`."""

import time
from pathlib import Path
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.output import age_of, print_json, print_resource, print_table, say
from sless.client.deployment import get_workload, wait_ready
from sless.client.sources import unpack_source

ROLLBACK_SEC = 120.0


@click.command()
@click.argument("name")
@click.argument("number", metavar="[N]", type=click.IntRange(min=1), required=False)
@click.option("--service", is_flag=True, help="NAME is a service.")
@client_command
def versions(context: CommandContext, name: str, number: int | None, service: bool) -> None:
    """List the versions of a function or service, newest first; `*` marks the active one. With N, show version N and its build log.

    \b
    Examples:
      sless versions hello
      sless versions hello 2
    """
    workloads, resource = get_workload(context.client, name, "service" if service else None)
    if number is not None:
        _show(context, workloads.version(name, number))
        return
    found = list(workloads.versions(name))
    if context.as_json:
        print_json(found)
        return
    rows = [
        (
            f"{version['version']}{' *' if version['version'] == resource.get('active_version') else ''}",
            version.get("state"),
            version.get("runtime"),
            version.get("entrypoint"),
            age_of(version.get("created_at")),
            (version.get("sha256") or "")[:12],
            version.get("message"),
        )
        for version in found
    ]
    print_table(("VERSION", "STATE", "RUNTIME", "ENTRYPOINT", "AGE", "SHA256", "MESSAGE"), rows)


def _show(context: CommandContext, version: dict[str, Any]) -> None:
    if context.as_json:
        print_json(version)
        return
    log = version.get("build_log", "").rstrip("\n")
    if log:  # the further lines of the message are its last ones
        version = {**version, "message": (version.get("message") or "").partition("\n")[0]}
    print_resource(version, ("version", "state", "message", "runtime", "entrypoint"), left_out=("build_log",))
    if log:
        click.echo(f"\n{log}")


@click.command()
@click.argument("name")
@click.argument("number", metavar="N", type=click.IntRange(min=1))
@click.option("--service", is_flag=True, help="NAME is a service.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the version is active.")
@client_command
def rollback(context: CommandContext, name: str, number: int, service: bool, no_wait: bool) -> None:
    """Activate version N, with its runtime and entrypoint.

    \b
    Example:
      sless rollback hello 3
    """
    workloads, resource = get_workload(context.client, name, "service" if service else None)
    workloads.activate(name, number)
    if not no_wait:
        resource = wait_ready(workloads, name, time.monotonic() + ROLLBACK_SEC, lambda found: found.get("active_version") == number)
    if context.as_json:
        print_json(resource)
    else:
        say(f'Version {number} of {workloads.kind} "{name}" is {"accepted" if no_wait else "active"}')


@click.command()
@click.argument("name")
@click.option("-o", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Write the files to DIR instead of printing them.")
@click.option("--force", is_flag=True, help="Overwrite files in DIR.")
@click.option("--version", "number", type=click.IntRange(min=1), metavar="N", help="Version; default: the active one.")
@click.option("--service", is_flag=True, help="NAME is a service.")
@client_command
def source(context: CommandContext, name: str, folder: Path | None, force: bool, number: int | None, service: bool) -> None:
    """Print the source of a function or service, or write it to a folder.

    \b
    Examples:
      sless source hello
      sless source hello -o ./hello --version 2
    """
    workloads, _ = get_workload(context.client, name, "service" if service else None)
    if folder is not None:
        paths = unpack_source(workloads.source_zip(name, number), folder, replace_files=force)
        say(f"{len(paths)} file{'s' if len(paths) != 1 else ''} written to {folder}")
        if context.as_json:
            print_json([str(folder / path) for path in paths])
        return
    files = workloads.source(name, number)
    if context.as_json:
        print_json(files)
        return
    for path, content in sorted(files.items()):
        click.echo(f"==> {path} <==")
        click.echo(content.rstrip("\n") if isinstance(content, str) else "(binary; use -o DIR)")
        click.echo()
