"""Links that sign a browser on this machine in to the console, once and within a minute."""

import getpass
import webbrowser

import click

from sless.config import Settings
from sless.errors import ConfigError
from sless.server.serve import local_url_of
from sless.tokens.console import CODE_SEC, create_code

VALID_TEXT = f"works once, within {CODE_SEC:.0f} s, on this machine"


def greet(settings: Settings, port: int, *, opens: bool) -> None:
    """Prints the link when `sless serve` listens, if there can be one."""
    url = local_url_of(settings.host, port)
    if settings.auth_mode != "local" or url is None:
        return
    link = sign_in_link(settings, url, default_sub(settings))
    click.echo(f"Console    {link}\n           ({VALID_TEXT}; `sless console` prints another)")
    if opens:
        open_link(link)


def open_link(link: str) -> None:
    if not webbrowser.open(link):
        click.echo("no browser could be opened; open the link yourself", err=True)


def sign_in_link(settings: Settings, url: str, sub: str) -> str:
    """Raises ConfigError if this server does not issue its tokens itself."""
    if settings.auth_mode != "local":
        raise ConfigError(f"SLESS_AUTH_MODE={settings.auth_mode}: links that sign in exist only in mode local; sign in with a token")
    return f"{url}/funcs?code={create_code(settings, sub)}"


def default_sub(settings: Settings) -> str:
    """The only tenant of the installation, or else the user's name."""
    from sless.app.database import find_only_sub

    if only := find_only_sub(settings):
        return only
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "local"
