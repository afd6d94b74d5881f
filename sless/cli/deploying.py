"""`deploy` and `delete`."""

import time
from pathlib import Path
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.options import EnvPair
from sless.cli.output import TerminalReport, print_json, say
from sless.cli.waiting import explained_interrupt
from sless.client import Client, ClientError, DeployRequest
from sless.client import deploy as deploy_folder
from sless.client.client import Resources
from sless.client.deployment import get_workload
from sless.client.errors import WaitTimeout

DELETE_SEC = 120.0
FIELDS = {
    "runtime": "runtime", "entrypoint": "entrypoint", "memory": "memory_mb", "timeout": "timeout_sec", "replicas": "replicas",
    "event_format": "event_format", "build_env": "build_env",
}  # fmt: skip
"""option → field of the resource"""


@click.command()
@click.argument("name")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--runtime", metavar="R", help="python3.11, nodejs20 or go1.23; default: guessed from the files.")
@click.option("--entrypoint", metavar="MODULE.FUNCTION", help="Function to call; default: handler.handle.")
@click.option("--service", is_flag=True, help="Deploy a service: always running, with a URL and no trigger.")
@click.option(
    "--env", "env_vars", type=EnvPair(), multiple=True, metavar="K=V", help="Set an environment variable; repeatable. Others are kept."
)
@click.option("--unset", multiple=True, metavar="K", help="Remove an environment variable; repeatable.")
@click.option("--build-env", type=EnvPair(), multiple=True, metavar="K=V", help="Variable for pip or npm only; repeatable. Replaces all.")
@click.option("--event-format", metavar="F", help="sless, aws-http-v1 or aws-http-v2.")
@click.option("--memory", type=int, metavar="MB", help="Memory of an instance.")
@click.option("--timeout", type=int, metavar="SEC", help="Time limit of a call in seconds.")
@click.option("--replicas", type=int, metavar="N", help="Number of instances of a service.")
@click.option("--no-http", is_flag=True, help="Do not create an http trigger, and so no URL.")
@click.option("--no-wait", is_flag=True, help="Return after the upload.")
@click.option("--wait-sec", type=float, default=600.0, show_default=True, metavar="SEC", help="Time to wait for Ready.")
@client_command
def deploy(context: CommandContext, name: str, folder: Path, **options: Any) -> None:
    """Deploy the code in DIR as NAME and print its URL.

    Creates the function (or service), or updates the existing one; options that are not given keep their values. A function without an
    http trigger gets one. Files listed in .slessignore are left out.

    \b
    Examples:
      sless deploy hello ./hello
      sless deploy api ./api --runtime nodejs20 --entrypoint app.main --service
      sless deploy hello ./hello --env GREETING=Hi --memory 256 --timeout 10
    """
    if options["replicas"] is not None and not options["service"]:
        raise click.UsageError("--replicas: only a service has replicas; add --service")
    options["build_env"] = dict(options["build_env"]) or None
    request = DeployRequest(
        name=name,
        folder=folder,
        kind="service" if options["service"] else None,
        fields={field: options[option] for option, field in FIELDS.items() if options[option] is not None},
        env_vars=dict(options["env_vars"]),
        unset_env=options["unset"],
        http=not options["no_http"],
        wait=not options["no_wait"],
        wait_sec=options["wait_sec"],
    )
    started_at = time.monotonic()
    with explained_interrupt(f"an uploaded version is still built; `sless describe {name}` shows it, and the same deploy resumes waiting"):
        result = deploy_folder(context.client, request, TerminalReport())
    if context.as_json:
        print_json(result.resource | {"deployed_version": result.version})
        return
    if request.wait:
        say(f"Version {result.version} of {result.kind} {name!r} is Ready ({time.monotonic() - started_at:.1f} s)".replace("'", '"'))
    else:
        say(f"Version {result.version} uploaded; `sless describe {name}` shows its progress")
    click.echo(result.url or f"no URL, as it has no http trigger; call it with `sless invoke {name}`", err=result.url is None)


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--service", is_flag=True, help="NAMEs are services.")
@click.option("--job", is_flag=True, help="NAMEs are jobs.")
@click.option("--trigger", is_flag=True, help="NAMEs are triggers.")
@click.option("--no-wait", is_flag=True, help="Return once the server has accepted the deletion.")
@client_command
def delete(context: CommandContext, names: tuple[str, ...], service: bool, job: bool, trigger: bool, no_wait: bool) -> None:
    """Delete functions and services, or jobs or triggers, and wait until nothing of them runs.

    The http trigger that `deploy` created for a function (same name) is deleted too; other triggers stay.

    \b
    Examples:
      sless delete hello
      sless delete nightly --trigger
      sless delete hello api --no-wait
    """
    if service + job + trigger > 1:
        raise click.UsageError("--service, --job and --trigger exclude each other")
    deleted = []
    for name in names:
        resources = _resources_of(context.client, name, service=service, job=job, trigger=trigger)
        resources.delete(name)
        if resources.kind == "function":
            _delete_own_trigger(context.client, name)
        if not no_wait:
            await_gone(resources, name)
        deleted.append({"name": name, "kind": resources.kind})
        say(f'{resources.kind} "{name}" {"is being deleted" if no_wait else "deleted"}')
    if context.as_json:
        print_json(deleted)


def _resources_of(client: Client, name: str, *, service: bool, job: bool, trigger: bool) -> Any:
    if job:
        return client.jobs
    if trigger:
        return client.triggers
    return get_workload(client, name, "service" if service else None)[0]


def _delete_own_trigger(client: Client, name: str) -> None:
    try:
        trigger = client.triggers.get(name)
    except ClientError as error:
        if error.status == 404:
            return
        raise
    if trigger.get("type") == "http" and trigger.get("function_ref") == name:
        client.triggers.delete(name)
        say(f'http trigger "{name}" deleted')


def await_gone(resources: Resources, name: str) -> None:
    deadline = time.monotonic() + DELETE_SEC
    while True:
        try:
            resources.get(name)
        except ClientError as error:
            if error.status == 404:
                return
            raise
        if time.monotonic() > deadline:
            raise WaitTimeout(
                message=f"{resources.kind} {name} is still Deleting after {DELETE_SEC:.0f} s; the server continues", code="wait_timeout"
            )
        time.sleep(0.2)
