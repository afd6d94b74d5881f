"""Waits for work that the server continues even if the client stops waiting."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from sless.cli.connection import CommandContext
from sless.cli.output import print_json, say
from sless.client.client import Workloads
from sless.client.deployment import growing_pauses

OPEN = ("queued", "running")
SLOWEST_POLL_SEC = 2.0


@contextmanager
def explained_interrupt(what: str) -> Iterator[None]:
    """On Ctrl-C, prints what the server continues to do and how to look at it."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\nNo longer waiting: {what}")
        raise


def await_invocation(workloads: Workloads, name: str, invocation_id: str) -> dict[str, Any]:
    """Waits for the end of an invocation."""
    pauses_sec = growing_pauses(0.05, SLOWEST_POLL_SEC)
    with explained_interrupt(f"the call continues; `sless invocations show {name} {invocation_id}` shows it"):
        while (found := workloads.invocation(name, invocation_id))["status"] in OPEN:
            time.sleep(next(pauses_sec))
        return dict(found)


def print_ended_invocation(context: CommandContext, found: dict[str, Any]) -> None:
    """Prints the result to stdout; if it failed, the error to stderr, with exit code 1."""
    succeeded = found["status"] == "succeeded"
    if context.as_json:
        print_json(found)
    elif succeeded:
        click.echo(found.get("result") or "null")
    if not succeeded:
        tried = f" after {found['attempts']} attempts" if found.get("attempts", 0) > 1 else ""
        say(f"Error: invocation {found['id']} is {found['status']}{tried}" + (f": {found['error']}" if found.get("error") else ""))
        raise click.exceptions.Exit(1)
