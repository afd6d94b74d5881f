"""Waiting for the end of an asynchronous call."""

import time
from typing import Any

import click

from sless.cli.connection import Session
from sless.cli.output import print_json, say
from sless.client.client import Workloads

OPEN = ("queued", "running")
SLOWEST_LOOK_SEC = 2.0


def await_end(workloads: Workloads, name: str, invocation_id: str) -> dict[str, Any]:
    """Looks often at first, then less: most calls are short."""
    pause_sec = 0.05
    while (found := workloads.invocation(name, invocation_id))["status"] in OPEN:
        time.sleep(pause_sec)
        pause_sec = min(SLOWEST_LOOK_SEC, pause_sec * 1.5)
    return dict(found)


def print_end(session: Session, found: dict[str, Any]) -> None:
    """The result on stdout; anything but success ends with its error and exit code 1."""
    succeeded = found["status"] == "succeeded"
    if session.as_json:
        print_json(found)
    elif succeeded:
        click.echo(found.get("result") or "null")
    if not succeeded:
        tried = f" after {found['attempts']} attempts" if found.get("attempts", 0) > 1 else ""
        say(f"Error: invocation {found['id']} is {found['status']}{tried}" + (f": {found['error']}" if found.get("error") else ""))
        raise click.exceptions.Exit(1)
