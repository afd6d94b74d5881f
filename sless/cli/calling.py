"""`invoke` and `logs`."""

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import click

from sless.cli.connection import Session, client_command
from sless.cli.output import print_fields, print_json, print_table, say
from sless.client import CallAnswer
from sless.client.deployment import get_workload
from sless.clock import parse_rfc3339, rfc3339_of

COLUMNS = ("started_at", "status", "http_status", "duration_ms", "trigger", "version", "id")
UNITS_SEC = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@click.command()
@click.argument("name")
@click.option("-d", "--data", default=None, metavar="JSON|@FILE|-", help="The event: JSON, a file with it, or - for stdin.")
@click.option("--content-type", default="application/json", show_default=True, metavar="TYPE", help="Of the data; JSON is checked before.")
@click.option("--async", "is_async", is_flag=True, help="Do not wait for the result; print the invocation's id.")
@click.option("--service", is_flag=True, help="NAME is a service.")
@client_command
def invoke(session: Session, name: str, data: str | None, content_type: str, is_async: bool, service: bool) -> None:
    """Call a function or service and print its answer.

    Works without an http trigger. An answer of 400 and above is printed too, with exit code 1.

    \b
    Examples:
      sless invoke hello -d '{"name": "you"}'
      sless invoke hello -d @event.json --output json
      sless invoke report --async
    """
    body = _body_of(data, content_type)
    workloads, _ = get_workload(session.client, name, "service" if service else None)
    headers = {"Content-Type": content_type} if body else {}
    answer = workloads.invoke(name, body, headers | ({"Prefer": "respond-async"} if is_async else {}))
    if is_async and answer.status == 202:
        _print_accepted(session, answer)
    elif session.as_json:
        print_json(_answer_json(answer))
    else:
        _print_body(answer)
    if answer.status >= 400:
        who = "sless" if answer.platform_error else f"{workloads.kind} {name}"
        say(f"Error: {who} answered {answer.status}" + (f" ({answer.platform_error})" if answer.platform_error else ""))
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--tail", type=click.IntRange(min=0), default=None, metavar="N", help="Only the last N lines.")
@click.option("--since", default=None, metavar="TIME", help="Only lines since then: 10m, 2h, 3d, or an RFC 3339 time.")
@click.option("--service", is_flag=True, help="NAME is a service.")
@click.option("--job", is_flag=True, help="NAME is a job.")
@client_command
def logs(session: Session, name: str, follow: bool, tail: int | None, since: str | None, service: bool, job: bool) -> None:
    """Print the log lines of a function, service or job.

    \b
    Examples:
      sless logs hello --tail 20
      sless logs hello -f --since 10m
    """
    params: dict[str, Any] = {"tail": tail, "since": _since_of(since), "follow": "1" if follow else None}
    if job:
        stream = session.client.jobs.logs(name, **params)
    else:
        stream = get_workload(session.client, name, "service" if service else None)[0].logs(name, **params)
    with stream as lines:
        for line in lines:
            click.echo(json.dumps({"text": line}, ensure_ascii=False) if session.as_json else line)


@click.command()
@click.argument("name")
@click.argument("invocation", metavar="[ID]", required=False)
@click.option("--status", default=None, metavar="S", help="Only these: succeeded, failed, timeout, queued, running …")
@click.option("--since", default=None, metavar="TIME", help="Only since then: 10m, 2h, 3d, or an RFC 3339 time.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, metavar="N", help="How many at most.")
@click.option("--service", is_flag=True, help="NAME is a service.")
@client_command
def invocations(session: Session, name: str, invocation: str | None, service: bool, limit: int, **filters: Any) -> None:
    """List the calls of a function or service, newest first; with an ID (or request id), show that one, its result and its log lines.

    \b
    Examples:
      sless invocations hello --status failed --since 1h
      sless invocations hello $(sless invoke hello --async)
    """
    workloads, _ = get_workload(session.client, name, "service" if service else None)
    if invocation is not None:
        _print_invocation(session, workloads.invocation(name, invocation))
        return
    filters["since"] = _since_of(filters["since"])
    found = list(islice(workloads.invocations(name, limit=limit, **filters), limit))
    if session.as_json:
        print_json(found)
    elif found:
        print_table(tuple(map(str.upper, COLUMNS)), [[call.get(column) for column in COLUMNS] for call in found])
    else:
        say("no invocations")


def _print_invocation(session: Session, found: dict[str, Any]) -> None:
    if session.as_json:
        print_json(found)
        return
    print_fields((key, value) for key, value in found.items() if key != "logs" and value not in (None, ""))
    for line in found.get("logs", ()):
        click.echo(f"{line['time']} {line['stream']}: {line['text']}")


def _body_of(data: str | None, content_type: str) -> bytes:
    if data is None:
        return b""
    body = text_of_option("--data", data)
    if content_type.partition(";")[0].strip().lower() == "application/json":
        try:
            json.loads(body)
        except ValueError as error:
            hint = "" if data.startswith("@") else "; @FILE reads a file, --content-type text/plain sends it as it is"
            raise click.UsageError(f"--data: expected JSON: {error}{hint}") from error
    return body


def text_of_option(option: str, data: str) -> bytes:
    """`-` is stdin, `@FILE` the file, anything else the text itself. Raises UsageError."""
    if data == "-":
        return sys.stdin.buffer.read()
    if not data.startswith("@"):
        return data.encode(errors="surrogateescape")
    try:
        return Path(data[1:]).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{option}: cannot read {data[1:]!r}: {error.strerror}") from error


def _print_body(answer: CallAnswer) -> None:
    """As it came; a line end is added on a terminal or after text, never to binary output."""
    sys.stdout.flush()
    sys.stdout.buffer.write(answer.body)
    is_text = answer.headers.get("Content-Type", "").startswith(("text/", "application/json"))
    if answer.body and not answer.body.endswith(b"\n") and (is_text or sys.stdout.isatty()):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _print_accepted(session: Session, answer: CallAnswer) -> None:
    invocation_id = answer.invocation_path.rpartition("/")[2]
    if session.as_json:
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


def _since_of(text: str | None) -> str | None:
    if text is None:
        return None
    relative = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if relative:
        return rfc3339_of(datetime.now(UTC) - timedelta(seconds=int(relative[1]) * UNITS_SEC[relative[2]]))
    try:
        return rfc3339_of(parse_rfc3339(text))
    except ValueError as error:
        raise click.UsageError(f"--since: expected 30s, 10m, 2h, 3d or an RFC 3339 time, found {text!r}") from error
