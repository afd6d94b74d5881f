"""The options of every client command, and the client made from them."""

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from sless.cli.output import say
from sless.client import Client, ClientError, Profile, Unreachable, connect
from sless.client.profiles import resolve

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """First argument of every client command."""

    client: Client
    as_json: bool


def for_each(names: Sequence[str], work: Callable[[str], Any]) -> tuple[list[Any], list[str]]:
    """Results and errors of `work` for every name; a failure does not stop the others. Raises Unreachable."""
    results, errors = [], []
    for name in dict.fromkeys(names):
        try:
            results.append(work(name))
        except Unreachable:
            raise
        except ClientError as error:
            errors.append(error.message)
    return results, errors


def fail_with(errors: Sequence[str]) -> None:
    """Prints the errors and exits with 1, if there are any."""
    for text in errors:
        say(f"Error: {text}")
    if errors:
        raise click.exceptions.Exit(1)


def given_token(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuses an explicitly empty token, which is a mistake, such as an unset variable, instead of using another token."""
    if not value.strip() and ctx.get_parameter_source("token") is ParameterSource.COMMANDLINE:
        raise click.BadParameter("expected a token, found an empty text", ctx, param)
    return value


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
        click.option("--token", default="", callback=given_token, metavar="TOKEN", help="Token; default: SLESS_TOKEN, the profile."),
        click.option("--profile", default="", metavar="NAME", help="Saved profile; default: SLESS_PROFILE, the current one."),
        click.option("--namespace", default="", metavar="NS", help="Namespace; default: the profile's, your own."),
        click.option("--output", type=click.Choice(["text", "json"]), default="text", envvar="SLESS_OUTPUT", help="Output format."),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return cast(Command, wrapped)
