"""`sless jobs`: runs with a stored result."""

import time
from pathlib import Path
from typing import Any

import click

from sless.cli.calling import print_logs
from sless.cli.connection import CommandContext, client_command, fail_with, for_each
from sless.cli.deploying import await_gone
from sless.cli.options import EVENT_HELP, EnvPair, json_of_option, with_options
from sless.cli.output import print_json, print_resource, print_table, say
from sless.cli.waiting import SLOWEST_POLL_SEC, explained_interrupt
from sless.client import Client, ClientError, pack_folder
from sless.client.deployment import delete_refused, growing_pauses, warnings_of
from sless.client.guess import check_entrypoint, guess_runtime
from sless.client.packing import PackedFolder

ENDED = ("Succeeded", "Failed", "Skipped")
_COLUMNS = ("name", "phase", "run_id", "function_ref", "start_time", "completion_time", "exit_code", "message")
_FIRST = ("name", "phase", "run_id", "message", "function_ref", "runtime", "entrypoint")
_FIELDS = {"runtime": "runtime", "entrypoint": "entrypoint", "memory": "memory_mb", "timeout": "timeout_sec"}
"""option → field of the job"""

_event = click.option("-d", "--event", metavar="JSON|@FILE|-", help=EVENT_HELP)
_wait = click.option("--wait", is_flag=True, help="Wait for the run to end and print its result.")
_SPEC = (
    click.option("--runtime", metavar="R", help="python3.11, nodejs20 or go1.23; default: guessed from the files."),
    click.option("--entrypoint", metavar="MODULE.FUNCTION", help="Function to call; default: handler.handle."),
    click.option("--env", "env_vars", type=EnvPair(), multiple=True, metavar="K=V", help="Set an environment variable; repeatable."),
    click.option("--build-env", type=EnvPair(), multiple=True, metavar="K=V", help="Variable for pip or npm only; repeatable."),
    click.option("--memory", type=int, metavar="MB", help="Memory of the run; default: the function's, or 128."),
    click.option("--timeout", type=int, metavar="SEC", help="Time limit of a run in seconds; default: the function's, or 30."),
)


class ListWithoutSubcommand(click.Group):
    """`sless jobs` without a subcommand lists."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_help = args[:1] in (["-h"], ["--help"])
        return super().parse_args(ctx, args if asks_help or (args and not args[0].startswith("-")) else ["list", *args])


@click.group("jobs", cls=ListWithoutSubcommand)
def jobs() -> None:
    """Create, run and inspect jobs: code that runs once and keeps its result. Without a subcommand, list them.

    \b
    Examples:
      sless jobs
      sless jobs create table ./table -d '{"year": 2026}' --wait
      sless jobs create again --function report --timeout 600
      sless jobs run table -d '{"year": 2027}' --wait
      sless jobs logs table -f
      sless jobs delete table again
    """


@jobs.command("list")
@client_command
def list_jobs(context: CommandContext) -> None:
    """List the jobs of the namespace.

    \b
    Examples:
      sless jobs list
      sless jobs list --output json
    """
    found = list(context.client.jobs.list())
    if context.as_json:
        print_json(found)
    elif found:
        print_table(tuple(map(str.upper, _COLUMNS)), [[job.get(column) for column in _COLUMNS] for job in found])
    else:
        say("No jobs; `sless jobs create` creates one")


@jobs.command()
@click.argument("name")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--function", "function_ref", metavar="NAME", help="Run the code of this function or service instead of DIR.")
@with_options(_event, *_SPEC)
@click.option("--no-run", is_flag=True, help="Create it without running it.")
@_wait
@client_command
def create(
    context: CommandContext, name: str, folder: Path | None, function_ref: str | None, no_run: bool, wait: bool, **options: Any
) -> None:  # fmt: skip
    """Create a job from the code in DIR, or from a function, and run it once it is built.

    \b
    Examples:
      sless jobs create table ./table -d '{"year": 2026}' --wait
      sless jobs create again --function report -d @event.json --timeout 600
      sless jobs create later ./table --no-run
    """
    if (folder is None) == (function_ref is None):
        raise click.UsageError("expected either DIR (the job's own code) or --function (a function's code), found " + _found(folder))
    if no_run and wait:
        raise click.UsageError("--wait: nothing runs with --no-run")
    fields = {"name": name, "run_id": 0 if no_run else 1} | _fields_of(options)
    packed = None
    if folder is None:
        fields["function_ref"] = function_ref
    else:
        packed = _pack(folder)
        if "runtime" not in fields:
            fields["runtime"] = guess_runtime(folder)
        if "entrypoint" not in fields:
            check_entrypoint(folder, fields["runtime"])
    made = context.client.jobs.create(fields)
    if packed is not None:
        made = _upload_first(context.client, name, packed)
    say(f'Created job "{name}"' + (f"; `sless jobs run {name}` runs it" if no_run else ""))
    _finish(context, name, made, wait)


@jobs.command()
@click.argument("name")
@_event
@_wait
@client_command
def run(context: CommandContext, name: str, event: str | None, wait: bool) -> None:
    """Run a job again, optionally with another event.

    \b
    Examples:
      sless jobs run table
      sless jobs run table -d '{"year": 2027}' --wait
    """
    fields = _fields_of({"event": event})
    known, etag = context.client.jobs.fetch(name)
    changed = context.client.jobs.merge(name, fields | {"run_id": known["run_id"] + 1}, etag)
    say(f'Run {changed["run_id"]} of job "{name}"')
    _finish(context, name, changed, wait)


@jobs.command()
@click.argument("name")
@click.option("--code", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Upload new code.")
@with_options(_event, *_SPEC)
@click.option("--unset", multiple=True, metavar="K", help="Remove an environment variable; repeatable.")
@client_command
def update(context: CommandContext, name: str, folder: Path | None, unset: tuple[str, ...], **options: Any) -> None:
    """Change the given options and keep the others. Nothing runs until `sless jobs run`.

    \b
    Examples:
      sless jobs update table --code ./table
      sless jobs update table --timeout 600 --env REGION=eu
    """
    fields = _fields_of(options)
    if not fields and not unset and folder is None:
        raise click.UsageError("nothing to change: give at least one option")
    packed = None if folder is None else _pack(folder)
    changed, etag = context.client.jobs.fetch(name)
    if unset or "env_vars" in fields:
        kept = {key: value for key, value in changed["env_vars"].items() if key not in unset}
        fields["env_vars"] = kept | fields.get("env_vars", {})
    if fields:
        changed = context.client.jobs.merge(name, fields, etag)
    if packed is not None:
        _upload(context.client, name, packed)
        changed = context.client.jobs.get(name)
    say(f'Changed job "{name}"')
    _finish(context, name, changed, wait=False)


@jobs.command()
@click.argument("name")
@client_command
def show(context: CommandContext, name: str) -> None:
    """Show a job and the result of its last run.

    \b
    Example:
      sless jobs show table
    """
    found = context.client.jobs.get(name)
    if context.as_json:
        print_json(found)
        return
    print_resource(found, _FIRST, left_out=("status", "result"))


@jobs.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Follow new lines until Ctrl-C.")
@click.option("--tail", type=click.IntRange(min=0), default=None, metavar="N", help="Only the last N lines.")
@click.option("--since", default=None, metavar="TIME", help="Only lines since TIME: 10m, 2h, 3d, or an RFC 3339 time.")
@client_command
def logs(context: CommandContext, name: str, follow: bool, tail: int | None, since: str | None) -> None:
    """Print the log lines of a job's runs.

    \b
    Examples:
      sless jobs logs table --tail 20
      sless jobs logs table -f
    """
    print_logs(context, context.client.jobs, name, follow=follow, tail=tail, since=since)


@jobs.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--no-wait", is_flag=True, help="Return once the server has accepted the deletion.")
@client_command
def delete(context: CommandContext, names: tuple[str, ...], no_wait: bool) -> None:
    """Delete jobs and stop their runs.

    \b
    Example:
      sless jobs delete table
    """

    def delete_one(name: str) -> dict[str, str]:
        context.client.jobs.delete(name)
        if not no_wait:
            await_gone(context.client.jobs, name)
        say(f'job "{name}" {"is being deleted" if no_wait else "deleted"}')
        return {"name": name, "kind": "job"}

    deleted, errors = for_each(names, delete_one)
    if context.as_json:
        print_json(deleted)
    fail_with(errors)


def _found(folder: Path | None) -> str:
    return "neither" if folder is None else "both"


def _fields_of(options: dict[str, Any]) -> dict[str, Any]:
    """The JSON fields for the given options."""
    fields = {field: options[option] for option, field in _FIELDS.items() if options.get(option) is not None}
    fields |= {name: dict(options[name]) for name in ("env_vars", "build_env") if options.get(name)}
    if options.get("event") is not None:
        fields["event_json"] = json_of_option("--event", options["event"])
    return fields


def _pack(folder: Path) -> PackedFolder:
    packed = pack_folder(folder)
    if packed.notice:
        say(packed.notice)
    return packed


def _upload_first(client: Client, name: str, packed: PackedFolder) -> dict[str, Any]:
    try:
        _upload(client, name, packed)
    except ClientError as error:
        delete_refused(client.jobs, name, error)
        raise
    return client.jobs.get(name)


def _upload(client: Client, name: str, packed: PackedFolder) -> None:
    for text in warnings_of(client.jobs.upload(name, packed.data)):
        say(text)


def _finish(context: CommandContext, name: str, job: dict[str, Any], wait: bool) -> None:
    """Prints the job. With `wait`: the result of its run on stdout, or the error and exit code 1."""
    if wait:
        with explained_interrupt(f"the run continues; `sless jobs show {name}` shows it, `sless jobs delete {name}` stops it"):
            job = _await_run(context.client, name)
    if context.as_json:
        print_json(job)
    elif wait and job["phase"] == "Succeeded":
        click.echo(job["message"])
    if wait and job["phase"] != "Succeeded":
        say(f'Error: job "{name}" {job["phase"]}: {job.get("message") or "no reason given"}')
        raise click.exceptions.Exit(1)


def _await_run(client: Client, name: str) -> dict[str, Any]:
    pauses_sec = growing_pauses(0.1, SLOWEST_POLL_SEC)
    while (job := client.jobs.get(name))["phase"] not in ENDED:
        time.sleep(next(pauses_sec))
    return dict(job)
