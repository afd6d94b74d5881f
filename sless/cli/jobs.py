"""`sless jobs …`: runs with a stored result."""

import time
from pathlib import Path
from typing import Any

import click

from sless.cli.calling import print_logs
from sless.cli.connection import CommandContext, client_command
from sless.cli.deploying import EnvPair, await_gone
from sless.cli.output import print_json, print_resource, print_table, say
from sless.cli.trigger_options import EVENT_HELP, json_of_option, with_options
from sless.cli.waiting import explained_interrupt
from sless.client import Client, ClientError, pack_folder
from sless.client.deployment import delete_refused
from sless.client.guess import check_entrypoint, guess_runtime
from sless.client.packing import PackedFolder

SLOWEST_POLL_SEC = 2.0
ENDED = ("Succeeded", "Failed", "Skipped")
_COLUMNS = ("name", "phase", "run_id", "function_ref", "start_time", "completion_time", "exit_code", "message")
_FIRST = ("name", "phase", "run_id", "message", "function_ref", "runtime", "entrypoint")
_FIELDS = {"runtime": "runtime", "entrypoint": "entrypoint", "memory": "memory_mb", "timeout": "timeout_sec"}
"""option → field of the job"""

_event = click.option("-d", "--event", metavar="JSON|@FILE|-", help=EVENT_HELP)
_wait = click.option("--wait", is_flag=True, help="Wait for the end and print the result.")
_SPEC = (
    click.option("--runtime", metavar="R", help="python3.11, nodejs20 or go1.23; guessed from the files of a new one."),
    click.option("--entrypoint", metavar="MODULE.FUNCTION", help="What is called; handler.handle when not given."),
    click.option("--env", "env_vars", type=EnvPair(), multiple=True, metavar="K=V", help="Environment variable; repeatable."),
    click.option("--build-env", type=EnvPair(), multiple=True, metavar="K=V", help="Variables that only pip or npm sees; repeatable."),
    click.option("--memory", type=int, metavar="MB", help="Memory of the run; else 128, or the function's."),
    click.option("--timeout", type=int, metavar="SEC", help="Seconds that a run may take; else 30, or the function's."),
)


class ListByDefault(click.Group):
    """`sless jobs` alone lists them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_help = args[:1] in (["-h"], ["--help"])
        return super().parse_args(ctx, args if asks_help or (args and not args[0].startswith("-")) else ["list", *args])


@click.group("jobs", cls=ListByDefault)
def jobs() -> None:
    """Make, run and look at jobs: code that runs once and whose result is kept. Alone it lists them.

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
        say("no jobs; `sless jobs create` makes one")


@jobs.command()
@click.argument("name")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--function", "function_ref", metavar="NAME", help="Function or service whose code runs, instead of that in DIR.")
@with_options(_event, *_SPEC)
@click.option("--no-run", is_flag=True, help="Only make it; `sless jobs run` runs it.")
@_wait
@client_command
def create(
    context: CommandContext, name: str, folder: Path | None, function_ref: str | None, no_run: bool, wait: bool, **options: Any
) -> None:  # fmt: skip
    """Make a job of the code in DIR, or of a function's, and run it once. It waits for its build.

    \b
    Examples:
      sless jobs create table ./table -d '{"year": 2026}' --wait
      sless jobs create again --function report -d @event.json --timeout 600
      sless jobs create later ./table --no-run
    """
    if (folder is None) == (function_ref is None):
        raise click.UsageError("expected either DIR (the job's own code) or --function (a function's code), found " + _found(folder))
    if no_run and wait:
        raise click.UsageError("--wait: with --no-run there is nothing to wait for")
    fields = {"name": name, "run_id": 0 if no_run else 1} | _fields_of(options)
    packed = None
    if folder is None:
        fields["function_ref"] = function_ref
    else:
        packed = pack_folder(folder)
        fields.setdefault("runtime", guess_runtime(folder))
        if "entrypoint" not in fields:
            check_entrypoint(folder, fields["runtime"])
    made = context.client.jobs.create(fields)
    if packed is not None:
        made = _upload_first(context.client, name, packed)
    say(f'Created job "{name}"' + ("; `sless jobs run` runs it" if no_run else ""))
    _finish(context, name, made, wait)


@jobs.command()
@click.argument("name")
@_event
@_wait
@client_command
def run(context: CommandContext, name: str, event: str | None, wait: bool) -> None:
    """Run a job once more, with another event if one is given.

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
@click.option("--code", "folder", metavar="DIR", type=click.Path(path_type=Path), help="New code for the job.")
@with_options(_event, *_SPEC)
@click.option("--unset", multiple=True, metavar="K", help="Environment variable to take away; repeatable.")
@client_command
def update(context: CommandContext, name: str, folder: Path | None, unset: tuple[str, ...], **options: Any) -> None:
    """Change what is given, keep the rest; nothing runs until `sless jobs run`.

    \b
    Examples:
      sless jobs update table --code ./table
      sless jobs update table --timeout 600 --env REGION=eu
    """
    fields = _fields_of(options)
    if not fields and not unset and folder is None:
        raise click.UsageError("nothing to change: give at least one option")
    packed = None if folder is None else pack_folder(folder)
    changed, etag = context.client.jobs.fetch(name)
    if unset or "env_vars" in fields:
        kept = {key: value for key, value in changed["env_vars"].items() if key not in unset}
        fields["env_vars"] = kept | fields.get("env_vars", {})
    if fields:
        changed = context.client.jobs.merge(name, fields, etag)
    if packed is not None:
        context.client.jobs.upload(name, packed.data)
        changed = context.client.jobs.get(name)
    say(f'Changed job "{name}"')
    _finish(context, name, changed, wait=False)


@jobs.command()
@click.argument("name")
@client_command
def show(context: CommandContext, name: str) -> None:
    """Show everything about a job, with the result of its last run.

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
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--tail", type=click.IntRange(min=0), default=None, metavar="N", help="Only the last N lines.")
@click.option("--since", default=None, metavar="TIME", help="Only lines since then: 10m, 2h, 3d, or an RFC 3339 time.")
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
@click.option("--no-wait", is_flag=True, help="Return as soon as the server has accepted it.")
@client_command
def delete(context: CommandContext, names: tuple[str, ...], no_wait: bool) -> None:
    """Delete jobs; a run that goes on is stopped.

    \b
    Example:
      sless jobs delete table
    """
    for name in names:
        context.client.jobs.delete(name)
        if not no_wait:
            await_gone(context.client.jobs, name)
        say(f'job "{name}" {"is being deleted" if no_wait else "deleted"}')
    if context.as_json:
        print_json([{"name": name, "kind": "job"} for name in names])


def _found(folder: Path | None) -> str:
    return "neither" if folder is None else "both"


def _fields_of(options: dict[str, Any]) -> dict[str, Any]:
    """The JSON fields of what was given."""
    fields = {field: options[option] for option, field in _FIELDS.items() if options.get(option) is not None}
    fields |= {name: dict(options[name]) for name in ("env_vars", "build_env") if options.get(name)}
    if options.get("event") is not None:
        fields["event_json"] = json_of_option("--event", options["event"])
    return fields


def _upload_first(client: Client, name: str, packed: PackedFolder) -> dict[str, Any]:
    try:
        client.jobs.upload(name, packed.data)
    except ClientError as error:
        delete_refused(client.jobs, name, error)
        raise
    return client.jobs.get(name)


def _finish(context: CommandContext, name: str, job: dict[str, Any], wait: bool) -> None:
    """With `wait` the end of the run that was asked for: its result on stdout, or its error and exit code 1."""
    if wait:
        with explained_interrupt(f"the run goes on; `sless jobs show {name}` shows it, `sless jobs delete {name}` stops it"):
            job = _await_run(context.client, name)
    if context.as_json:
        print_json(job)
    elif wait and job["phase"] == "Succeeded":
        click.echo(job["message"])
    if wait and job["phase"] != "Succeeded":
        say(f'Error: job "{name}" {job["phase"]}: {job.get("message") or "no reason given"}')
        raise click.exceptions.Exit(1)


def _await_run(client: Client, name: str) -> dict[str, Any]:
    """Looks often at first, then less."""
    pause_sec = 0.1
    while (job := client.jobs.get(name))["phase"] not in ENDED:
        time.sleep(pause_sec)
        pause_sec = min(SLOWEST_POLL_SEC, pause_sec * 1.3)
    return dict(job)
