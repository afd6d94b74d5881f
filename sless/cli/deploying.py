"""`deploy` and `delete`."""

import time
from pathlib import Path
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
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


class EnvPair(click.ParamType):
    name = "K=V"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = str(value).partition("=")
        if not equals or not key:
            self.fail(f"expected NAME=VALUE, found {value!r}", param, ctx)
        return key, text


@click.command()
@click.argument("name")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--runtime", metavar="R", help="python3.11, nodejs20 or go1.23; guessed from the files of a new one.")
@click.option("--entrypoint", metavar="MODULE.FUNCTION", help="What is called; handler.handle when not given.")
@click.option("--service", is_flag=True, help="A service: standing instances and a URL without a trigger.")
@click.option("--env", "env_vars", type=EnvPair(), multiple=True, metavar="K=V", help="Environment variable; repeatable. The others stay.")
@click.option("--unset", multiple=True, metavar="K", help="Environment variable to take away; repeatable.")
@click.option("--build-env", type=EnvPair(), multiple=True, metavar="K=V", help="Variables that only pip or npm sees; repeatable; replace.")
@click.option("--event-format", metavar="F", help="sless or aws-http-v2.")
@click.option("--memory", type=int, metavar="MB", help="Memory of an instance.")
@click.option("--timeout", type=int, metavar="SEC", help="Seconds a call may take.")
@click.option("--replicas", type=int, metavar="N", help="Standing instances of a service.")
@click.option("--no-http", is_flag=True, help="Create no http trigger; the function has no URL then.")
@click.option("--no-wait", is_flag=True, help="Return after the upload.")
@click.option("--wait-sec", type=float, default=600.0, show_default=True, metavar="SEC", help="How long to wait for Ready.")
@client_command
def deploy(context: CommandContext, name: str, folder: Path, **options: Any) -> None:
    """Deploy the code in DIR as NAME and print its URL.

    Creates the function (or service) or changes the one that is there; what is not given stays as it is. A function that no http trigger
    refers to gets one, so that its URL answers. Files that .slessignore names are left out.

    \b
    Examples:
      sless deploy hello ./hello
      sless deploy api ./api --runtime nodejs20 --entrypoint app.main --service
      sless deploy hello ./hello --env GREETING=Hi --memory 256 --timeout 10
    """
    if options["replicas"] is not None and not options["service"]:
        raise click.UsageError("--replicas: only a service has replicas; give --service too")
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
    with explained_interrupt(
        f"a version that is uploaded is built all the same; `sless describe {name}` shows it, the same deploy again finishes it"
    ):
        result = deploy_folder(context.client, request, TerminalReport())
    if context.as_json:
        print_json(result.resource | {"deployed_version": result.version})
        return
    if request.wait:
        say(f"Version {result.version} of {result.kind} {name!r} is Ready ({time.monotonic() - started_at:.1f} s)".replace("'", '"'))
    else:
        say(f"Version {result.version} is uploaded; `sless describe {name}` shows how far it is")
    click.echo(result.url or f"no URL: no http trigger refers to it; call it with `sless invoke {name}`", err=result.url is None)


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--service", is_flag=True, help="Only services of these names.")
@click.option("--job", is_flag=True, help="These are jobs.")
@click.option("--trigger", is_flag=True, help="These are triggers.")
@click.option("--no-wait", is_flag=True, help="Return as soon as the server has accepted it.")
@client_command
def delete(context: CommandContext, names: tuple[str, ...], service: bool, job: bool, trigger: bool, no_wait: bool) -> None:
    """Delete functions and services, or jobs or triggers; wait until nothing of them runs.

    The http trigger that `deploy` made for a function (it has the function's name) goes with it; other triggers stay.

    \b
    Examples:
      sless delete hello
      sless delete nightly --trigger
      sless delete hello api --no-wait
    """
    if service + job + trigger > 1:
        raise click.UsageError("--service, --job, --trigger: give one of them")
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
                message=f"{resources.kind} {name} is still Deleting after {DELETE_SEC:.0f} s; it goes on", code="wait_timeout"
            )
        time.sleep(0.2)
