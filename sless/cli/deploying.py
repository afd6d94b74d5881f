"""`deploy` and `delete`."""

import time
from pathlib import Path
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command, fail_with, for_each
from sless.cli.options import EnvPair, with_options
from sless.cli.output import TerminalReport, print_json, say
from sless.cli.waiting import explained_interrupt
from sless.client import Client, ClientError, DeployRequest
from sless.client import deploy as deploy_folder
from sless.client.client import Resources
from sless.client.deployment import find_resources, get_workload
from sless.client.errors import WaitTimeout

DELETE_SEC = 120.0
FIELDS = {
    "runtime": "runtime", "entrypoint": "entrypoint", "memory": "memory_mb", "timeout": "timeout_sec", "replicas": "replicas",
    "event_format": "event_format", "build_env": "build_env", "secret_env": "secret_env", "concurrency": "concurrency",
    "description": "description", "min_instances": "min_instances", "max_instances": "max_instances", "idle_seconds": "idle_seconds",
}  # fmt: skip
"""option → field of the resource"""


SPEC_OPTIONS = (
    click.option(
        "--env", "env_vars", type=EnvPair(), multiple=True, metavar="K=V", help="Set an environment variable; repeatable. Others are kept."
    ),
    click.option("--unset", multiple=True, metavar="K", help="Remove an environment variable; repeatable."),
    click.option(
        "--secret-env", type=EnvPair(), multiple=True, metavar="K=V", help="Variable that is never shown; repeatable. Replaces all."
    ),
    click.option(
        "--build-env", type=EnvPair(), multiple=True, metavar="K=V", help="Variable for pip or npm only; repeatable. Replaces all."
    ),
    click.option("--event-format", metavar="F", help="sless, aws-http-v1 or aws-http-v2."),
    click.option("--memory", type=int, metavar="MB", help="Memory of an instance."),
    click.option("--timeout", type=int, metavar="SEC", help="Time limit of a call in seconds."),
    click.option("--concurrency", type=int, metavar="N", help="Calls that an instance runs at the same time."),
    click.option("--min-instances", type=int, metavar="N", help="Instances kept running even without calls."),
    click.option("--max-instances", type=int, metavar="N", help="Maximum number of instances."),
    click.option("--idle-seconds", type=int, metavar="SEC", help="Seconds without a call before scaling down to the minimum."),
    click.option("--replicas", type=int, metavar="N", help="Number of instances of a service, both minimum and maximum."),
    click.option("--description", metavar="TEXT", help="Description."),
)


@click.command()
@click.argument("name")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--runtime", metavar="R", help="python3.11, nodejs20 or go1.23; default: guessed from the files.")
@click.option("--entrypoint", metavar="MODULE.FUNCTION", help="Function to call; default: handler.handle.")
@click.option("--service", is_flag=True, help="Deploy a service: always running, with a URL and no trigger.")
@with_options(*SPEC_OPTIONS)
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
    request = DeployRequest(
        name=name,
        folder=folder,
        kind="service" if options["service"] else None,
        fields=_fields_of(options),
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


@click.command("set")
@click.argument("name")
@click.option("--service", is_flag=True, help="NAME is a service.")
@with_options(*SPEC_OPTIONS)
@client_command
def set_fields(context: CommandContext, name: str, service: bool, **options: Any) -> None:
    """Change settings of a function or service without its code; options that are not given keep their values.

    Instances are replaced without a failed call.

    \b
    Examples:
      sless set hello --env GREETING=Hello --memory 256
      sless set hello --unset GREETING --concurrency 10
    """
    workloads, found = get_workload(context.client, name, "service" if service else None)
    fields = _fields_of(options)
    if options["env_vars"] or options["unset"]:
        kept = {key: value for key, value in found.get("env_vars", {}).items() if key not in options["unset"]}
        fields["env_vars"] = kept | dict(options["env_vars"])
    if not fields:
        raise click.UsageError("nothing to change: give at least one option")
    changed = workloads.merge(name, fields)
    if context.as_json:
        print_json(changed)
    else:
        say(f'Changed {workloads.kind} "{name}": {", ".join(sorted(fields))}')


def _fields_of(options: dict[str, Any]) -> dict[str, Any]:
    """The JSON fields for the given options, without env_vars."""
    given = {field: options[option] for option, field in FIELDS.items() if options.get(option) not in (None, ())}
    return {field: dict(value) if isinstance(value, tuple) else value for field, value in given.items()}


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--service", is_flag=True, help="NAMEs are services.")
@click.option("--job", is_flag=True, help="NAMEs are jobs.")
@click.option("--trigger", is_flag=True, help="NAMEs are triggers.")
@click.option("--no-wait", is_flag=True, help="Return once the server has accepted the deletion.")
@client_command
def delete(context: CommandContext, names: tuple[str, ...], service: bool, job: bool, trigger: bool, no_wait: bool) -> None:
    """Delete functions and services, or jobs or triggers, and wait until nothing of them runs.

    Without an option, NAME may be a function, service, job or trigger, in this order. The http trigger that `deploy` created for a function
    (same name) is deleted too; other triggers stay.

    \b
    Examples:
      sless delete hello
      sless delete nightly --trigger
      sless delete hello api --no-wait
    """
    if service + job + trigger > 1:
        raise click.UsageError("--service, --job and --trigger exclude each other")

    def delete_one(name: str) -> dict[str, str]:
        resources = _resources_of(context.client, name, service=service, job=job, trigger=trigger)
        resources.delete(name)
        if resources.kind == "function":
            _delete_own_trigger(context.client, name)
        if not no_wait:
            await_gone(resources, name)
        say(f'{resources.kind} "{name}" {"is being deleted" if no_wait else "deleted"}')
        return {"name": name, "kind": resources.kind}

    deleted, errors = for_each(names, delete_one)
    if context.as_json:
        print_json(deleted)
    fail_with(errors)


def _resources_of(client: Client, name: str, *, service: bool, job: bool, trigger: bool) -> Any:
    if job:
        return client.jobs
    if trigger:
        return client.triggers
    if service:
        return get_workload(client, name, "service")[0]
    found = find_resources(client, name, (client.functions, client.services, client.jobs, client.triggers))
    return found[0] if found else get_workload(client, name)[0]


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
