"""Backs up and restores the installation that the settings describe."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sless import backup
from sless.app.database import database_url_of, open_encrypted
from sless.app.encryption import KeyFile, key_source_of, location_of
from sless.backup import BackupSummary, Report, Restored, RestoreTarget
from sless.code import open_code_store
from sless.config import Settings
from sless.domain.audit import installation_note, value_change
from sless.domain.model import Version
from sless.errors import ConfigError
from sless.kube.names import find_code_map
from sless.store import open_store

SIGNING_KEY = "jwt-secret"
_DEPS = "deps"


def write_backup(settings: Settings, path: Path, report: Report) -> BackupSummary:
    """Writes a file next to `path` and renames it, so that `path` is always complete; mode 0600. `.gz` and `.tgz` are compressed."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            written = stream_backup(settings, file, report, compressed=path.suffix in (".gz", ".tgz"))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
    return written


def stream_backup(settings: Settings, target: BinaryIO, report: Report, *, compressed: bool) -> BackupSummary:
    url = database_url_of(settings)
    if not settings.database_url and not (settings.data_dir / "sless.db").exists():
        raise ConfigError(f"SLESS_DATA_DIR: no database in {settings.data_dir}: nothing to back up")
    store = open_store(url)
    try:
        signing_key = settings.data_dir / SIGNING_KEY if settings.auth_mode == "local" else None
        return backup.write(store, open_code_store(settings), target, compressed=compressed, signing_key=signing_key, report=report)
    finally:
        store.close()


def restore_backup(settings: Settings, source: BinaryIO, report: Report, *, force: bool) -> Restored:
    """The caller must have locked the data folder. A source that cannot seek is copied into it first. If there is no key file yet, only a
    backup without encrypted secrets can be restored; the server's first start encrypts them."""
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    keys = key_source_of(settings)
    has_keys = not isinstance(keys, KeyFile) or keys.exists()
    store = open_encrypted(settings) if has_keys else open_store(database_url_of(settings))
    try:
        target = RestoreTarget(
            store=store,
            code=open_code_store(settings),
            folder=settings.data_dir,
            signing_key=settings.data_dir / SIGNING_KEY if settings.auth_mode == "local" else None,
            is_usable=Usable(settings),
            keys_place=location_of(keys),
        )
        with _seekable(source, settings.data_dir) as file:
            done = backup.restore(file, target, force=force, report=report)
        store.audit.add(installation_note("restore", value_change("backup_of", None, done.created_at)))
        return done
    finally:
        store.close()


@contextmanager
def _seekable(source: BinaryIO, folder: Path) -> Iterator[BinaryIO]:
    if source.seekable():
        yield source
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        shutil.copyfileobj(source, file, 1 << 20)
        yield file


@dataclass(frozen=True, slots=True)
class Usable:
    """Whether the artifact of a version can be used on this machine. Installed dependencies are in the data folder of one machine and not
    in backups; images are still in their registry, and a missing ConfigMap with small code is created again."""

    settings: Settings

    def __call__(self, version: Version) -> bool:
        artifact = version.artifact
        of_cluster = "/" in artifact or find_code_map(artifact) is not None
        if self.settings.backend == "kubernetes" or of_cluster:
            return of_cluster and self.settings.backend == "kubernetes"
        return not artifact or (self.settings.data_dir / _DEPS / artifact).is_dir()
