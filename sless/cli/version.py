"""`sless version`, in a module of its own: nothing to import."""

import click

from sless._version import __version__


@click.command()
@click.option("--output", type=click.Choice(["text", "json"]), default="text", envvar="SLESS_OUTPUT", help="How to print the answer.")
def version(output: str) -> None:
    """Print the version of sless.

    \b
    Example:
      sless version
    """
    click.echo(f'{{"version": "{__version__}"}}' if output == "json" else __version__)
