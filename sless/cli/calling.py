"""`invoke` and `logs`."""

import json
import sys
from typing import Any

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.options import EVENT_HELP, bytes_of_option, since_of
from sless.cli.output import print_json, say
from sless.cli.waiting import await_invocation, print_ended_invocation
from sless.client import CallAnswer, ClientError
from sless.client.client import Jobs, Workloads
from sless.client.deployment import find_resources, get_workload


@click.command()
@click.argument("name")
@click.option("-d", "--data", default=None, metavar="JSON|@FILE|-", help=EVENT_HELP)
@click.option(
    "--content-type",
    default="application/json",
    show_default=True,
    metavar="TYPE",
    help="Type of the data; JSON is checked before it is sent.",
)
@click.option("--async", "is_async", is_flag=True, help="Queue the call and print its invocation ID.")
@click.option("--callback-url", default=None, metavar="URL", help="With --async: URL to notify (signed POST) when the call ends.")
@click.option(
    "--max-attempts",
    type=click.IntRange(1, 10),
    default=None,
    metavar="N",
    help="With --async: attempts before the call is dead; default 3.",
)
@click.option("--wait", is_flag=True, help="With --async: wait for the call to end and print its result.")
@click.option("--service", is_flag=True, help="NAME is a service.")
@client_command
def invoke(context: CommandContext, name: str, data: str | None, content_type: str, is_async: bool, service: bool, **later: Any) -> None:
    """Call a function or service and print its answer.

    No http trigger is needed. An answer with status 400 or above is printed too, with exit code 1.

    \b
    Examples:
      sless invoke hello -d '{"name": "you"}'
      sless invoke hello -d @event.json --output json
      sless invoke report --async
      sless invoke report --async --wait
      sless invoke report --async --callback-url https://example.com/done
    """
    if not is_async and (given := [f"--{option.replace('_', '-')}" for option, value in later.items() if value]):
        raise click.UsageError(f"{given[0]}: only with --async")
    body = _body_of(data, content_type)
    workloads, _ = get_workload(context.client, name, "service" if service else None)
    headers = {"Content-Type": content_type} if body else {}
    answer = workloads.invoke(name, body, headers | (_later_headers(later) if is_async else {}))
    if is_async and answer.status >= 400:  # nothing was queued, and a script that reads the ID must not get an error text
        raise answer.refusal
    if is_async and answer.status == 202:
        _accepted(context, workloads, name, answer, later["wait"])
    elif context.as_json:
        print_json(_answer_json(answer))
    else:
        _print_body(answer)
    if answer.status >= 400:
        who = "sless" if answer.platform_error else f"{workloads.kind} {name}"
        say(f"Error: {who} answered {answer.status}" + (f" ({answer.platform_error})" if answer.platform_error else ""))
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Follow new lines until Ctrl-C.")
@click.option("--tail", type=click.IntRange(min=0), default=None, metavar="N", help="Only the last N lines.")
@click.option("--since", default=None, metavar="TIME", help="Only lines since TIME: 10m, 2h, 3d, or an RFC 3339 time.")
@click.option("--service", is_flag=True, help="NAME is a service.")
@click.option("--job", is_flag=True, help="NAME is a job.")
@client_command
def logs(context: CommandContext, name: str, follow: bool, tail: int | None, since: str | None, service: bool, job: bool) -> None:
    """Print the log lines of a function, service or job; NAME is looked up in this order.

    \b
    Examples:
      sless logs hello --tail 20
      sless logs hello -f --since 10m
    """
    client = context.client
    candidates = (client.jobs,) if job else (client.services,) if service else (client.functions, client.services, client.jobs)
    found = find_resources(client, name, candidates)
    if found is None:
        raise ClientError(message=f'no {" or ".join(item.kind for item in candidates)} "{name}" in {client.namespace}', status=404)
    source, resource = found
    assert isinstance(source, Workloads | Jobs)
    print_logs(context, source, name, follow=follow, tail=tail, since=since)
    if isinstance(source, Workloads):
        _point_to_failed_build(resource)


def _point_to_failed_build(workload: dict[str, Any]) -> None:
    if workload.get("latest_state") == "failed":
        number, name = workload["latest_version"], workload["name"]
        say(f"The build of version {number} failed; `sless versions {name} {number}` shows its log")


def print_logs(context: CommandContext, source: Workloads | Jobs, name: str, *, follow: bool, tail: int | None, since: str | None) -> None:
    form = "json" if context.as_json else None
    with source.logs(name, tail=tail, since=since_of(since), follow="1" if follow else None, format=form) as lines:
        for line in lines:
            click.echo(line)


def _body_of(data: str | None, content_type: str) -> bytes:
    if data is None:
        return b""
    body = bytes_of_option("--data", data)
    if content_type.partition(";")[0].strip().lower() == "application/json":
        try:
            json.loads(body)
        except ValueError as error:
            hint = "" if data.startswith("@") else "; use @FILE to read a file, or --content-type text/plain to send text"
            raise click.UsageError(f"--data: expected JSON: {error}{hint}") from error
    return body


def _print_body(answer: CallAnswer) -> None:
    """Prints the bytes as received. Adds a line end after text or on a terminal, never to binary output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(answer.body)
    is_text = answer.headers.get("Content-Type", "").startswith(("text/", "application/json"))
    if answer.body and not answer.body.endswith(b"\n") and (is_text or sys.stdout.isatty()):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _later_headers(later: dict[str, Any]) -> dict[str, str]:
    given = {"X-Sless-Callback-Url": later["callback_url"], "X-Sless-Max-Attempts": later["max_attempts"]}
    return {"Prefer": "respond-async"} | {name: str(value) for name, value in given.items() if value is not None}


def _accepted(context: CommandContext, workloads: Workloads, name: str, answer: CallAnswer, wait: bool) -> None:
    invocation_id = answer.invocation_path.rpartition("/")[2]
    if wait:
        print_ended_invocation(context, await_invocation(workloads, name, invocation_id))
    elif context.as_json:
        print_json({"id": invocation_id, "location": answer.invocation_path})
    else:
        click.echo(invocation_id)


def _answer_json(answer: CallAnswer) -> dict[str, Any]:
    body: Any
    try:
        body = json.loads(answer.body)
    except ValueError:
        body = answer.body.decode(errors="replace")
    return {"status": answer.status, "headers": dict(answer.headers), "body": body}
