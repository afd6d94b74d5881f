"""`sless demo`: a local server with example functions."""

import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from sless.cli.demo_tour import DemoExample, curl_line, run_tour
from sless.cli.server_commands import ServerCommand, data_dir_option, load_settings
from sless.client import Client, connect
from sless.config import Settings
from sless.errors import ConfigError

if TYPE_CHECKING:
    from sless.cli.demo_server import DemoServer

DEMO_SUB = "demo"
TOKEN_SEC = 24 * 3600.0


@click.command(cls=ServerCommand)
@click.option("--exit", "exits", is_flag=True, help="Run the tour, then stop everything and exit.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=9090, show_default=True, help="Port to listen on; the next free one if it is in use."
)
@click.option("--open", "opens", is_flag=True, help="Open the console in a browser.")
@data_dir_option
def demo(exits: bool = False, port: int = 9090, opens: bool = False, data_dir: Path | None = None) -> int:
    """Start a local server, deploy and call the example functions, and run until Ctrl-C.

    The demo can reuse its data folder, and `sless serve` can serve it.

    \b
    Examples:
      sless demo
      sless demo --exit --data-dir /tmp/try-sless
    """
    from sless.cli import console_link

    settings = load_settings(data_dir=data_dir)
    token = _issue_token(settings)
    started_at = time.monotonic()
    with _signals_end_it() as stop, _running(settings, port) as server:
        server.wait_ready()
        click.echo(f"Ready after {time.monotonic() - started_at:.1f} s: {server.url}")
        with connect(server.url, token) as client:
            shown = run_tour(client)
            link = _print_what_to_try(client, settings, token, shown)
            if opens and link:
                console_link.open_link(link)
        if exits:
            return 0
        click.echo("\nThe server is running. Press Ctrl-C to stop it and everything it started.")
        stop.is_up = True
        code = server.process.wait()
        raise ConfigError(f"the server exited unexpectedly (exit code {code}):\n{server.last_lines()}")


class _Stop(KeyboardInterrupt):
    """A signal arrived, which is the normal end of a running demo: exit code 0."""


class _StopState:
    is_up = False


@contextmanager
def _signals_end_it() -> Iterator[_StopState]:
    """SIGINT, SIGTERM and SIGHUP (terminal closed) stop the demo cleanly."""
    state = _StopState()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _raise_stop) for number in signals}
    try:
        yield state
    except _Stop as stop:
        if not state.is_up:
            raise SystemExit(128 + int(stop.args[0])) from None
        raise SystemExit(0) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _Stop(number)


@contextmanager
def _running(settings: Settings, wanted_port: int) -> "Iterator[DemoServer]":
    from sless.cli.demo_server import choose_port, start_server
    from sless.host.sandbox import sandbox_text_of

    port = choose_port(wanted_port)
    if port != wanted_port:
        click.echo(f"Port {wanted_port} is in use, using {port}")
    click.echo(
        f"Starting sless on http://127.0.0.1:{port}, data in {settings.data_dir}, sandbox: {sandbox_text_of(settings.local_sandbox)}"
    )
    server = start_server(settings, port)
    try:
        yield server
    finally:
        click.echo("\nStopping the server and its functions")
        server.stop()


def _issue_token(settings: Settings) -> str:
    from sless import tokens

    try:
        return tokens.issue_token(settings, DEMO_SUB, TOKEN_SEC)
    except OSError as error:
        raise ConfigError(f"SLESS_DATA_DIR: cannot use {settings.data_dir}: {error.strerror}") from error


def _print_what_to_try(client: Client, settings: Settings, token: str, shown: list[tuple[DemoExample, str]]) -> str:
    """Every line below `Try` can be pasted into a shell. Returns the link to the console, "" if none can be made."""
    from sless.cli.console_link import VALID_TEXT, sign_in_link

    url = client.transport.url
    link = sign_in_link(settings, url, DEMO_SUB) if settings.auth_mode == "local" else ""
    click.echo(f"\nConsole    {link or url + '/funcs'}")
    if link:
        click.echo(f"           ({VALID_TEXT}; `{_program()} console --sub {DEMO_SUB}` prints another)")
    click.echo(f"API        {url}/docs")
    click.echo(f"Namespace  {client.namespace}")
    click.echo(f"Token      {token}")
    click.echo("\nTry:")
    for example, function_url in shown:
        click.echo(f"  {curl_line(function_url, example.event)}")
    header = shlex.quote(f"Authorization: Bearer {token}")
    click.echo(f"  curl -s -H {header} {url}{client.path}/functions")
    click.echo(f"  curl -s -H {header} {url}{client.path}/functions/{shown[0][0].name}/logs")
    click.echo("\nOr with the command line, in another terminal:")
    click.echo(f"  export SLESS_URL={url} SLESS_TOKEN={token}")
    click.echo(f"  {_program()} list")
    click.echo(f"  {_program()} logs {shown[0][0].name} -f")
    return link


def _program() -> str:
    """The command that starts this program again."""
    started_as = Path(sys.argv[0]).absolute()
    return f"python3 {shlex.quote(str(started_as))}" if started_as.suffix in (".py", ".pyz") else "sless"
