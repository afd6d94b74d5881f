"""The group `sless`: finds commands in their modules, and turns errors into exit codes."""

import difflib
import gc
import sys
from importlib import import_module
from typing import NoReturn

import click
from click.shell_completion import get_completion_class

from sless._version import __version__
from sless.ending import leave

INTERRUPTED = 130
_YOUNG_OBJECTS = 50_000
"""Between garbage collections. Imports leave no garbage; searching for it every 700 objects takes a tenth of their time."""

COMMANDS: dict[str, tuple[str, ...]] = {
    "Server": (
        "demo",
        "serve",
        "console",
        "token",
        "config",
        "migrate",
        "backup",
        "restore",
        "gc",
        "import-operator",
        "rotate-keys",
        "version",
        "completion",
    ),
    "Write": ("init", "dev"),
    "Deploy and call": ("deploy", "set", "invoke", "logs", "invocations", "list", "describe", "delete"),
    "Versions": ("versions", "rollback", "rebuild", "source"),
    "More": (
        "whoami",
        "usage",
        "limits",
        "trigger",
        "triggers",
        "jobs",
        "audit",
        "operator",
        "notify",
        "callback-key",
        "terraform",
        "login",
    ),
}
"""Sections of `sless --help`."""

HOMES: dict[str, str] = {
    "demo": "demo:demo",
    "serve": "server_commands:serve",
    "console": "console:console",
    "token": "server_commands:token",
    "config": "server_commands:config",
    "migrate": "server_commands:migrate",
    "backup": "backup_commands:backup",
    "restore": "backup_commands:restore",
    "rotate-keys": "backup_commands:rotate_keys",
    "version": "main:version",
    "init": "init:init",
    "dev": "dev:dev",
    "deploy": "deploying:deploy",
    "invoke": "calling:invoke",
    "logs": "calling:logs",
    "invocations": "invocations:invocations",
    "list": "inspecting:list_workloads",
    "describe": "inspecting:describe",
    "trigger": "triggers:trigger",
    "triggers": "inspecting:triggers",
    "jobs": "jobs:jobs",
    "delete": "deploying:delete",
    "versions": "versions:versions",
    "rollback": "versions:rollback",
    "rebuild": "rebuilding:rebuild",
    "source": "versions:source",
    "operator": "operating:operator",
    "import-operator": "importing:import_operator",
    "gc": "collecting:gc",
    "notify": "notifying:notify",
    "audit": "auditing:audit",
    "callback-key": "notifying:callback_key",
    "terraform": "terraform_commands:terraform",
    "login": "login:login",
    "whoami": "login:whoami",
    "usage": "limits:usage",
    "limits": "limits:limits",
    "completion": "main:completion",
    "set": "deploying:set_fields",
}
"""command → module of this package : object"""

HELP = """Run serverless functions: deploy code, get a URL.

Without a command, run the demo: a local server with example functions.

\b
Examples:
  sless demo
  sless deploy hello ./hello
  sless invoke hello -d '{"name": "you"}'
  sless logs hello -f
"""


class LazyGroup(click.Group):
    """Imports a command's module on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in COMMANDS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = HOMES.get(cmd_name)
        if home is None:
            return None
        module, _, attribute = home.partition(":")
        return getattr(import_module(f"sless.cli.{module}"), attribute)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in HOMES and (close := difflib.get_close_matches(args[0], HOMES, 1)):
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{close[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in COMMANDS.items():
            rows = [(name, command.get_short_help_str(90)) for name in names if (command := self.get_command(ctx, name))]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(cls=LazyGroup, help=HELP, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def group(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        command = group.get_command(ctx, "demo")
        assert command is not None
        with command.make_context("demo", [], parent=ctx) as demo_ctx:
            command.invoke(demo_ctx)


@click.command()
@click.option("--output", type=click.Choice(["text", "json"]), default="text", envvar="SLESS_OUTPUT", help="Output format.")
def version(output: str) -> None:
    """Print the version of sless.

    \b
    Example:
      sless version
    """
    click.echo(f'{{"version": "{__version__}"}}' if output == "json" else __version__)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands and options in SHELL.

    `sless` must be a program on the PATH, not an alias: `install -D dist/sless.pyz ~/.local/bin/sless`.

    \b
    Example:
      echo 'eval "$(sless completion bash)"' >> ~/.bashrc
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(group, {}, "sless", "_SLESS_COMPLETE").source())


def run() -> NoReturn:
    """The program `sless`."""
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    leave(main())


def main(arguments: list[str] | None = None) -> int:
    """Runs a command line and returns its exit code. Expected errors are printed to stderr without a traceback. click handles a closed
    stdout (`sless list | head -1`)."""
    try:
        result = group.main(args=arguments, prog_name="sless", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except _errors_for_users() as error:
        click.echo(f"Error: {_text_for_user(error)}", err=True)
        return 1
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1


def _errors_for_users() -> tuple[type[Exception], ...]:
    """Errors with a message for users; any other is a bug and keeps its traceback. Imports nothing, since only loaded modules can raise
    errors."""
    homes = {"sless.client": ("ClientError", "PackingError", "ProfileError"), "sless.errors": ("ConfigError", "SlessError")}
    return tuple(getattr(sys.modules[module], name) for module, names in homes.items() if module in sys.modules for name in names)


def _text_for_user(error: Exception) -> str:
    """The message, then one line per invalid field, a hint, or the request ID."""
    lines = [str(error)]
    details = getattr(error, "details", ())
    if len(details) > 1:
        lines += [f"  {item['field']}: {item['message']}" for item in details if isinstance(item, dict) and "field" in item]
    if getattr(error, "code", "") == "unreachable":
        lines.append("  `sless serve` starts a server; --url or SLESS_URL selects another")
    if getattr(error, "code", "") == "token_expired":
        lines.append("  get a new one: `sless token --sub NAME` on the server's machine, or from your provider; `sless login` saves it")
    request_id = getattr(error, "request_id", "")
    if request_id and getattr(error, "status", 0) >= 500:
        lines.append(f"  request id: {request_id}")
    return "\n".join(lines)
