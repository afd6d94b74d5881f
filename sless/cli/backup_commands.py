"""The commands `backup` and `restore`, for who runs the server."""

import sys
from pathlib import Path
from typing import BinaryIO

import click

from sless.cli.data_folder import hold_data_folder
from sless.cli.output import say
from sless.cli.server_commands import data_dir_option, load_settings
from sless.errors import ConfigError

database_url_option = click.option("--database-url", help="Else SLESS_DATABASE_URL, SQLite in the data folder.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@data_dir_option
@database_url_option
def backup(file: Path, **options: Path | str | None) -> None:
    """Write database and code into FILE, as of one moment, while the server goes on.

    Whose name ends in .gz or .tgz is compressed; - is stdout, uncompressed. The file holds secrets of your users: only you can read it.

    \b
    Examples:
      sless backup /backup/sless-$(date +%F).tgz
      sless backup - | age -r KEY > sless.age
    """
    settings = load_settings(**options)
    from sless.app.backup import stream_backup, write_backup

    if str(file) == "-":
        written = stream_backup(settings, sys.stdout.buffer, say, compressed=False)
        sys.stdout.buffer.flush()
    else:
        written = write_backup(settings, file, say)
    say(f"{written.rows} rows and {written.blobs} uploads are in {file if str(file) != '-' else 'the backup'}")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--force", is_flag=True, help="Replace what is there: everything in the database, and its code.")
@data_dir_option
@database_url_option
def restore(file: Path, force: bool, **options: Path | str | None) -> None:
    """Bring back what `sless backup` wrote, also into another kind of database or code store.

    Into an empty installation, with its server stopped. The file is checked to its end before anything changes; - is stdin.

    \b
    Examples:
      sless restore sless.tgz
      SLESS_DATABASE_URL=postgresql://sless@db/sless sless restore sless.tgz
    """
    settings = load_settings(**options)
    from sless.app.backup import restore_backup

    with hold_data_folder(settings.data_dir), _opened(file) as source:
        done = restore_backup(settings, source, say, force=force)
    say(f"the backup of {done.created_at[:19]}Z (sless {done.sless_version}) is restored: {done.rows} rows, {done.blobs} uploads")
    if done.builds:
        say(f"{done.builds} versions are built anew when the server starts: what was built of them is not here")


def _opened(file: Path) -> BinaryIO:
    if str(file) == "-":
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
