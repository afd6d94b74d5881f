"""`usage`, and `limits` for operators."""

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.output import print_json, print_table


@click.command()
@client_command
def usage(context: CommandContext) -> None:
    """Show what the namespace uses of its limits, and its calls per day.

    \b
    Example:
      sless usage
    """
    found = context.client.usage()
    if context.as_json:
        print_json(found)
        return
    print_table(("LIMIT", "USED", "MOST"), [(name, found["counts"].get(name), most) for name, most in found["limits"].items()])
    if found["days"]:
        click.echo()
        rows = [(day["day"], day["invocations"], day["errors"], day["gb_seconds"], day.get("instance_gb_seconds")) for day in found["days"]]
        print_table(("DAY", "CALLS", "ERRORS", "GB_SECONDS", "INSTANCE_GB_SECONDS"), rows)


@click.command()
@click.argument("settings", nargs=-1, metavar="[NAME=VALUE|NAME=default]...")
@client_command
def limits(context: CommandContext, settings: tuple[str, ...]) -> None:
    """Show or change the limits of the namespace given by --namespace (operators only). Other limits keep their values.

    \b
    Examples:
      sless limits --namespace sless-0123456789abcdef
      sless limits --namespace sless-0123456789abcdef functions=20 calls_per_minute=default
    """
    changes = dict(_change_of(text) for text in settings)
    if changes:
        context.client.ensure_namespace()
    found = context.client.limits()
    if changes:
        own = {name: value for name, value in found.items() if name in found.get("limits", {})}
        found = context.client.set_limits(own | changes)
    if context.as_json:
        print_json(found)
        return
    rows = [(name, most, "default" if found.get(name) is None else "set") for name, most in found["limits"].items()]
    print_table(("LIMIT", "MOST", "SOURCE"), rows)


def _change_of(text: str) -> tuple[str, int | None]:
    """Raises UsageError."""
    name, _, value = text.partition("=")
    if value == "default":
        return name, None
    if not (value.isascii() and value.isdigit()):
        raise click.UsageError(f"expected NAME=VALUE with a whole number or `default`, found {text!r}")
    return name, int(value)
