"""`sless console`: a link that signs in to the console of the server on this machine."""

from pathlib import Path

import click

from sless.cli.server_commands import ServerCommand, data_dir_option, load_settings
from sless.errors import ConfigError


@click.command(cls=ServerCommand)
@click.option("--sub", metavar="S", help="Subject to sign in as; default: the only tenant, else your user name.")
@click.option("--open", "opens", is_flag=True, help="Open the link in a browser.")
@data_dir_option
def console(sub: str | None, opens: bool, data_dir: Path | None) -> None:
    """Print a link that signs in to the console of the server on this machine.

    It works once, within a minute, and only in a browser on this machine. Needs the server's data folder and SLESS_AUTH_MODE local.

    \b
    Examples:
      sless console --open
      sless console --sub alice
    """
    from sless.cli.console_link import default_sub, open_link, sign_in_link
    from sless.server.serve import find_running

    settings = load_settings(data_dir=data_dir)
    url = find_running(settings.data_dir)
    if url is None:
        raise ConfigError(f"no server with the data folder {settings.data_dir} listens on this machine; start one with `sless serve`")
    link = sign_in_link(settings, url, sub or default_sub(settings))
    click.echo(link)
    if opens:
        open_link(link)
