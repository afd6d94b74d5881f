"""Commands that need the server's settings: `serve`, `migrate`, `token`, `config`."""

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click

from sless import config as settings_table
from sless.cli.older_settings import unread_names
from sless.cli.output import print_json, print_table, say
from sless.clock import find_duration
from sless.config import Settings
from sless.errors import ConfigError

_log = logging.getLogger(__name__)

SERVER_PYTHON = (3, 11)


class ServerCommand(click.Command):
    """A command that runs server code, whose packages a `pip install sless` without extras lacks. Its module imports server code inside the
    command, so that `sless --help` works without it."""

    def invoke(self, ctx: click.Context) -> Any:
        if sys.version_info[:2] != SERVER_PYTHON:
            raise self._missing(f"this is Python {sys.version_info[0]}.{sys.version_info[1]}")
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            name = error.name or ""
            if name.partition(".")[0] == "sless":
                raise
            raise self._missing(f"{name} is not installed") from error

    def _missing(self, found: str) -> click.ClickException:
        python = ".".join(map(str, SERVER_PYTHON))
        text = f"`sless {self.name}` needs Python {python} and the server's packages, but {found}"
        return click.ClickException(f"{text}: python{python} -m pip install 'sless[server]'")


data_dir_option = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Folder for database, code and caches; default: SLESS_DATA_DIR."
)


def load_settings(**options: Any) -> Settings:
    """Settings from the environment, overridden by the given options. Raises ConfigError."""
    if options.get("data_dir") is not None:
        options["data_dir"] = options["data_dir"].expanduser().absolute()
    return settings_table.load(os.environ, **options)


@click.command(cls=ServerCommand)
@click.option("--host", help="Address to listen on; default: SLESS_HOST, 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; default: SLESS_PORT, 9090.")
@data_dir_option
@click.option("--database-url", help="Database; default: SLESS_DATABASE_URL, or SQLite in the data folder.")
@click.option("--external-url", help="Base URL for callers; default: SLESS_EXTERNAL_URL, http://HOST:PORT.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Log level; default: SLESS_LOG_LEVEL, info.")
@click.option("--open", "opens", is_flag=True, help="Open the console in a browser.")
@click.option("--lifeline-fd", type=int, hidden=True, help="Descriptor of a pipe; the server stops when it closes.")
def serve(lifeline_fd: int | None, opens: bool, **options: Any) -> None:
    """Run the server in the foreground until SIGTERM or Ctrl-C. On this machine it prints a link that signs in to the console.

    \b
    Examples:
      sless serve --open
      sless serve --host 0.0.0.0 --port 8080 --data-dir /var/lib/sless
    """
    settings = load_settings(**options)
    from sless import app, log, server
    from sless.cli.console_link import greet
    from sless.cli.installation import hold_data_folder

    log.configure(settings.log_level)
    for sentence in unread_names(os.environ):
        _log.warning("%s", sentence)
    with hold_data_folder(settings.data_dir):
        app.migrate(settings)
        app.claim(settings)
        if lifeline_fd is not None:
            watch_lifeline(lifeline_fd)
        # A demo prints the link itself, as the output of its server is a log.
        server.serve(settings, app.build, None if lifeline_fd is not None else lambda port: greet(settings, port, opens=opens))


def watch_lifeline(descriptor: int) -> None:
    """Sends SIGTERM to this process when the other end of the pipe closes, so that a demo's server ends even if the demo is killed."""
    owner = os.getpid()

    def watch() -> None:
        while os.read(descriptor, 1):
            pass
        os.kill(owner, signal.SIGTERM)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


@click.command(cls=ServerCommand)
@data_dir_option
@click.option("--database-url", help="Database; default: SLESS_DATABASE_URL, or SQLite in the data folder.")
def migrate(**options: Any) -> None:
    """Migrate the database to this version's schema. `serve` does so too.

    \b
    Example:
      SLESS_DATABASE_URL=postgresql://sless@db/sless sless migrate
    """
    settings = load_settings(**options)
    from sless import app, log

    log.configure(settings.log_level)
    app.migrate(settings)
    say("The database schema is up to date")


class TimeToLive(click.ParamType):
    name = "TTL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = find_duration(f"{value}s" if str(value).isdecimal() else str(value))
        if not found:
            self.fail(f"expected a time such as 90s, 30m, 24h or 7d, found {value!r}", param, ctx)
        return int(found.total_seconds())


@click.command(cls=ServerCommand)
@click.option("--sub", required=True, metavar="S", help="Subject: identifies the tenant.")
@click.option(
    "--tenant", default="", metavar="T", help="Value of the claim SLESS_TENANT_CLAIM, if that is not `sub`; default: the subject."
)
@click.option("--ttl", type=TimeToLive(), default="24h", show_default=True, metavar="TTL", help="Lifetime.")
@data_dir_option
@click.option("--output", type=click.Choice(["text", "json"]), default="text", envvar="SLESS_OUTPUT", help="Output format.")
def token(sub: str, tenant: str, ttl: int, data_dir: Path | None, output: str) -> None:
    """Print a token for a tenant; stdout has nothing else.

    Run it on the server's machine, with its data folder. Needs SLESS_AUTH_MODE local or secret.

    \b
    Examples:
      export SLESS_TOKEN=$(sless token --sub alice)
      sless token --sub ci --ttl 7d
    """
    settings = load_settings(data_dir=data_dir)
    from sless import ids, tokens

    try:
        text = tokens.issue_token(settings, sub, ttl, tenant=tenant)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"cannot write the secret to {error.filename}: {error.strerror}") from error
    if output == "json":
        print_json({"token": text, "sub": sub, "namespace": ids.namespace_of(tenant or sub), "ttl_sec": ttl})
    else:
        click.echo(text)


@click.command(cls=ServerCommand)
@data_dir_option
@click.option("--output", type=click.Choice(["text", "json"]), default="text", envvar="SLESS_OUTPUT", help="Output format.")
def config(data_dir: Path | None, output: str) -> None:
    """Print every server setting with its value and source. Secrets are hidden.

    \b
    Examples:
      sless config
      SLESS_PORT=8080 sless config --output json
    """
    settings = load_settings(data_dir=data_dir)
    rows = [
        {
            "name": name, "value": value, "source": "option" if data_dir and name == "SLESS_DATA_DIR" else _source_of(name), "help": text,
            "default": default,
        }
        for (name, value, text), (_, default, _) in zip(settings_table.shown(settings), settings_table.shown(Settings()), strict=True)
    ]  # fmt: skip
    from sless.host.sandbox import sandbox_text_of

    if settings.backend == "local":
        for row in rows:
            if row["name"] == "SLESS_LOCAL_SANDBOX":
                row["in_use"] = sandbox_text_of(settings.local_sandbox)
                row["help"] += f"; in use: {row['in_use']}"
    if output == "json":
        print_json(rows)
    else:
        print_table(("NAME", "VALUE", "SOURCE", "MEANING"), [(row["name"], row["value"], row["source"], row["help"]) for row in rows])


def _source_of(name: str) -> str:
    if name in os.environ:
        return "environment"
    file = os.environ.get(f"{name}_FILE")
    return f"file {file}" if file is not None else "default"
