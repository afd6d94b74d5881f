"""`login`: save URL and token in the profile file."""

import os
import sys

import click

from sless.cli.connection import CommandContext, client_command, given_token
from sless.cli.output import print_json, print_resource, say
from sless.client import Profile, connect
from sless.client.profiles import DEFAULT_NAME, DEFAULT_URL, file_of, save_profile


@click.command()
@click.option("--url", default="", metavar="URL", help=f"Server; default: SLESS_URL, {DEFAULT_URL}.")
@click.option("--token", default="", callback=given_token, metavar="TOKEN|-", help="Token, or - for stdin; default: SLESS_TOKEN, a prompt.")
@click.option("--profile", default="", metavar="NAME", help="Profile to write; default: SLESS_PROFILE, default.")
@click.option("--namespace", default="", metavar="NS", help="Namespace, for operators; default: your own.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", envvar="SLESS_OUTPUT", help="Output format.")
def login(url: str, token: str, profile: str, namespace: str, output: str) -> None:
    """Check a URL and token and save them in the profile file (mode 0600).

    \b
    Examples:
      sless login --url https://functions.example.com
      sless token --sub me | sless login --token -
    """
    url = url or os.environ.get("SLESS_URL") or DEFAULT_URL
    profile = profile or os.environ.get("SLESS_PROFILE") or DEFAULT_NAME
    found = Profile(url=url, token=_token_of(token), namespace=namespace)
    with connect(found.url, found.token, namespace) as client:
        caller = client.whoami()
    path = file_of(os.environ)
    save_profile(path, profile, found)
    if output == "json":
        print_json({"profile": profile, "file": str(path), "url": url, "namespace": namespace or caller["namespace"]})
    else:
        say(f'Profile "{profile}" written to {path}: {url}, namespace {namespace or caller["namespace"]}')


@click.command()
@client_command
def whoami(context: CommandContext) -> None:
    """Show the server, the subject of the token and its namespace.

    \b
    Example:
      sless whoami
    """
    found = {"url": context.client.transport.url} | context.client.whoami()
    print_json(found) if context.as_json else print_resource(found, ("url", "sub", "namespace"))


def _token_of(given: str) -> str:
    if given == "-":
        given = sys.stdin.readline()
    given = given or os.environ.get("SLESS_TOKEN", "")
    if not given and not sys.stdin.isatty():
        raise click.UsageError("no token: pass --token TOKEN, --token - to read stdin, or set SLESS_TOKEN")
    return (given or click.prompt("Token", hide_input=True, err=True)).strip()
