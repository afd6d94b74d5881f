"""`notify` and `callback-key`: what sless posts to users' URLs, signed."""

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


@click.command("callback-key")
@click.option("--rotate", is_flag=True, help="Create a new key; the old one also signs for 24 hours.")
@client_command
def callback_key(context: CommandContext, rotate: bool) -> None:
    """Print the key that signs the callbacks of asynchronous calls.

    The printed text is the key. A genuine callback has the header X-Sless-Signature: v1=HEX, where HEX is the HMAC-SHA256 of the header
    X-Sless-Timestamp, the callback URL and the body, with a dot after each of the first two.

    \b
    Examples:
      sless callback-key
      sless callback-key --rotate
    """
    found = context.client.rotate_callback_key() if rotate else context.client.callback_key()
    if context.as_json:
        print_json(found)
    else:
        click.echo(found["key"])
