"""`backup`, `restore` and `rotate-keys`, for operators."""

import sys
from pathlib import Path
from typing import BinaryIO

import click

from sless.actor import acting
from sless.cli.installation import hold_data_folder, shell_actor
from sless.cli.output import say
from sless.cli.server_commands import ServerCommand, data_dir_option, load_settings
from sless.errors import ConfigError

database_url_option = click.option("--database-url", help="Database; default: SLESS_DATABASE_URL, or SQLite in the data folder.")


@click.command(cls=ServerCommand)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@data_dir_option
@database_url_option
def backup(file: Path, **options: Path | str | None) -> None:
    """Write a consistent copy of database and code to FILE while the server runs.

    A name ending in .gz or .tgz is compressed; - writes to stdout, uncompressed. Your users' secrets are encrypted in it and the keys are
    not: keep SLESS_ENCRYPTION_KEYS (or the file encryption-keys of the data folder) elsewhere. The file's mode is 0600.

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
    say(f"Wrote {written.rows} rows and {written.blobs} uploads to {file if str(file) != '-' else 'stdout'}")
    if written.encryption_keys:
        say(f"A restore needs encryption key {', '.join(written.encryption_keys)}, which is not in the file")


@click.command(cls=ServerCommand)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--force", is_flag=True, help="Replace the existing database and its code.")
@data_dir_option
@database_url_option
def restore(file: Path, force: bool, **options: Path | str | None) -> None:
    """Restore what `sless backup` wrote, also into another kind of database or code store.

    The installation must be empty, its server stopped, and the encryption keys of the old one in SLESS_ENCRYPTION_KEYS or the file
    encryption-keys of the data folder. The whole file is verified before anything changes; - reads stdin.

    \b
    Examples:
      sless restore sless.tgz
      SLESS_DATABASE_URL=postgresql://sless@db/sless sless restore sless.tgz
    """
    settings = load_settings(**options)
    from sless.app.backup import restore_backup

    with hold_data_folder(settings.data_dir), _opened(file) as source, acting(shell_actor()):
        done = restore_backup(settings, source, say, force=force)
    say(f"Restored the backup of {done.created_at[:19]}Z (sless {done.sless_version}): {done.rows} rows, {done.blobs} uploads")
    if done.builds:
        say(f"{done.builds} versions will be rebuilt when the server starts; backups do not contain build results")


@click.command("rotate-keys", cls=ServerCommand)
@data_dir_option
@database_url_option
def rotate_keys(**options: Path | str | None) -> None:
    """Encrypt all secrets in the database with a new key while the server runs.

    Without SLESS_ENCRYPTION_KEYS, the data folder's key file gets the new key. With it, put a new key first and restart the servers (with
    several, first put it last and restart, so that each can read it). May be interrupted and repeated.

    \b
    Example:
      sless rotate-keys
    """
    settings = load_settings(**options)
    from sless.app.database import rotate

    with acting(shell_actor()):
        rotate(settings, say)


def _opened(file: Path) -> BinaryIO:
    if str(file) == "-":
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
