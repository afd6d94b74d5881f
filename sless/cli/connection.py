"""The options of every client command, and the client made from them."""

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
    """First argument of every client command."""

    client: Client
    as_json: bool


def client_command(command: Command) -> Command:
    """Adds --url, --token, --profile, --namespace and --output, and passes a CommandContext first."""

    @functools.wraps(command)
    def wrapped(url: str, token: str, profile: str, namespace: str, output: str, **options: Any) -> Any:
        found = resolve(Profile(url=url, token=token, namespace=namespace), profile, os.environ)
        if not found.token:
            raise click.ClickException(
                f"no token for {found.url}: set SLESS_TOKEN, or save one with `sless login`.\n"
                "On the server's machine, `sless token --sub NAME` issues one."
            )
        with connect(found.url, found.token, found.namespace) as client:
            return command(CommandContext(client=client, as_json=output == "json"), **options)

    options = (
        click.option("--url", default="", metavar="URL", help="Server; default: SLESS_URL, the profile, http://127.0.0.1:9090."),
        click.option("--token", default="", metavar="TOKEN", help="Token; default: SLESS_TOKEN, the profile."),
        click.option("--profile", default="", metavar="NAME", help="Saved profile; default: SLESS_PROFILE, the current one."),
        click.option("--namespace", default="", metavar="NS", help="Namespace; default: the profile's, your own."),
        click.option("--output", type=click.Choice(["text", "json"]), default="text", envvar="SLESS_OUTPUT", help="Output format."),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast(Command, wrapped)
