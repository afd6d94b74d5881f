"""`gc`, for operators."""

import os
import sys
import zipfile
from pathlib import Path

import click

from sless.actor import acting
from sless.cli.backup_commands import database_url_option
from sless.cli.installation import shell_actor
from sless.cli.output import print_json, print_table, say
from sless.cli.server_commands import ServerCommand, data_dir_option, load_settings
from sless.errors import SlessError


@click.command(cls=ServerCommand)
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@data_dir_option
@database_url_option
@click.option("--output", type=click.Choice(["text", "json"]), default="text", envvar="SLESS_OUTPUT", help="Output format.")
def gc(dry_run: bool, output: str, **options: Path | str | None) -> None:
    """Remove unused data: code without a version, old build contexts, images of removed versions, unpacked zipapps of earlier builds.

    The server may run, and other installations may use the same bucket and registry: only data with this installation's id is removed.

    \b
    Example:
      sless gc --dry-run
    """
    settings = load_settings(**options)
    from sless.app.gc import collect

    try:
        with acting(shell_actor()):
            removed = collect(settings, dry_run=dry_run, zipapp=find_zipapp())
    except SlessError as error:
        raise click.ClickException(error.message) from error
    rows = [{"kind": item.kind, "name": item.name, "size_bytes": item.size_bytes} for item in removed]
    size = sum(item.size_bytes or 0 for item in removed)
    if output == "json":
        print_json(rows)
    elif rows:
        print_table(("KIND", "NAME", "BYTES"), [tuple(row.values()) for row in rows])
    say(f"{'Would remove' if dry_run else 'Removed'} {len(rows)} items, {size} bytes of code")


def find_zipapp() -> tuple[Path, Path] | None:
    """The zipapp that runs, and the folder into which it unpacks itself; None if this is another installation."""
    root, archive = os.environ.get("SHIV_ROOT"), Path(sys.argv[0]).resolve()
    return (archive, Path(root)) if root and zipfile.is_zipfile(archive) else None
