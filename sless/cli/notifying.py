"""`notify`."""

import click

from sless.cli.connection import CommandContext, client_command
from sless.cli.output import print_json, say


@click.command()
@click.argument("address", metavar="[URL]", required=False)
@click.option("--off", is_flag=True, help="Send no notices.")
@client_command
def notify(context: CommandContext, address: str | None, off: bool) -> None:
    """Show or set the URL that receives notices of failures in the namespace.

    A signed POST follows a failed build, a function that fails to start, a dead letter, and a reached limit.

    \b
    Examples:
      sless notify https://example.com/hooks/sless
      sless notify --off
    """
    if off and address:
        raise click.UsageError("expected either URL or --off")
    found = context.client.set_notify_url(address) if address or off else context.client.notifications()
    if context.as_json:
        print_json(found)
    elif found["notify_url"]:
        click.echo(found["notify_url"])
    else:
        say("Failures are not reported; `sless notify URL` sets an address")
