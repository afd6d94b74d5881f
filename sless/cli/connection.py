"""Options that every client command has, and the client they lead to."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import click

from sless.client import Client, Profile, connect
from sless.client.profiles import resolve

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What a client command works with."""

    client: Client
    as_json: bool


def client_command(command: Command) -> Command:
    """Adds --url, --token, --profile, --namespace, --output; the command's first argument is the CommandContext."""

    @functools.wraps(command)
    def wrapped(url: str, token: str, profile: str, namespace: str, output: str, **options: Any) -> Any:
        found = resolve(Profile(url=url, token=token, namespace=namespace), profile, os.environ)
        if not found.token:
            raise click.ClickException(
                f"no token for {found.url}: set SLESS_TOKEN, or write one to the profile file with `sless login`.\n"
                "On the machine of the server, `sless token --sub NAME` makes one."
            )
        with connect(found.url, found.token, found.namespace) as client:
            return command(CommandContext(client=client, as_json=output == "json"), **options)

    options = (
        click.option("--url", default="", metavar="URL", help="Server; else SLESS_URL, the profile, http://127.0.0.1:9090."),
        click.option("--token", default="", metavar="TOKEN", help="Token; else SLESS_TOKEN, the profile."),
        click.option("--profile", default="", metavar="NAME", help="Profile of the profile file; else SLESS_PROFILE, the current one."),
        click.option("--namespace", default="", metavar="NS", help="Namespace; else the profile's, your own."),
        click.option("--output", type=click.Choice(["text", "json"]), default="text", envvar="SLESS_OUTPUT", help="Text or JSON."),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast(Command, wrapped)
