"""Restores rows into a database and code into a code store."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sless.backup import archive
from sless.backup.archive import BrokenBackup, Member
from sless.backup.writing import Progress, Report
from sless.domain.model import Version, VersionState
from sless.domain.ports import CodeStore
from sless.errors import ConfigError
from sless.store import Store, dump

LEADER = "leader"
"""The lease of a running server (`reconcile.leader`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTarget:
    """Target of a restore. `folder` is for temporary files; `signing_key` is the path for the key, None to skip it; `is_usable` returns
    whether the artifact of a version can be used here; `keys_place` names the location of the encryption keys in errors."""

    store: Store
    code: CodeStore
    folder: Path
    signing_key: Path | None
    is_usable: Callable[[Version], bool]
    keys_place: str = "SLESS_ENCRYPTION_KEYS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    created_at: str
    sless_version: str
    blobs: int
    rows: int
    builds: int
    """Versions that will be built again."""


def restore(source: BinaryIO, target: RestoreTarget, *, force: bool, report: Report) -> Restored:
    """`source` must be seekable. Before anything is changed, raises ConfigError (BrokenBackup) if the file is damaged, written by a newer
    sless or encrypted with a missing key, the target is not empty (unless `force`), or a server uses its database. Restores code first,
    then rows in one transaction, so that an interruption leaves the database unchanged, possibly with unreferenced code."""
    progress = Progress(report)
    manifest = archive.verify(source)
    target.store.sealed.check_keys("the backup", manifest["encryption_keys"], target.keys_place)
    before = _check_target(target.store, force)
    after: set[str] = set()
    rows = 0
    content = archive.members(source)
    first: Member | None = None
    for member in content:
        if member.name.startswith(archive.TABLES):
            first = member
            break
        _restore_file(member, target, after, force=force, report=report)
        progress.at(f"code: {len(after)} uploads")
    with dump.loading(target.store.database, manifest["schema"], manifest["tables"]) as loading:
        for member in itertools.chain([first] if first else [], content):
            if member.name.startswith(archive.TABLES):
                rows += loading.add(member.name.split("/")[1], member.rows())
                progress.at(f"{member.name.split('/')[1]}: {rows} rows in all")
    target.store.sealed.encrypt_plain()
    for key in sorted(before - after):
        target.code.delete(key)
    return Restored(
        created_at=manifest["created_at"], sless_version=manifest["sless_version"], blobs=len(after), rows=rows, builds=_build_anew(target)
    )


def _check_target(store: Store, force: bool) -> set[str]:
    """Checks the target, and returns the keys of the code that the restore replaces."""
    if not dump.has_schema(store.database):
        return set()
    if holder := store.leases.holder(LEADER):
        raise ConfigError(f"a sless server ({holder}) uses this database, or did a moment ago: stop it; after a crash, wait 15 seconds")
    if not force and not dump.is_empty(store.database):
        raise ConfigError("the database is not empty: use another one (SLESS_DATABASE_URL, SLESS_DATA_DIR), or replace it with --force")
    return dump.code_keys(store.database)


def _restore_file(member: Member, target: RestoreTarget, written: set[str], *, force: bool, report: Report) -> None:
    if member.name.startswith(archive.CODE):
        _restore_code(member, target, written)
    elif member.name == archive.SIGNING_KEY:
        _restore_signing_key(member, target, force, report)


def _restore_code(member: Member, target: RestoreTarget, written: set[str]) -> None:
    key = member.name.removeprefix(archive.CODE)
    with tempfile.NamedTemporaryFile(dir=target.folder, prefix=".restore-") as file:
        shutil.copyfileobj(member.source, file, 1 << 20)
        file.flush()
        try:
            target.code.put(key, Path(file.name))
        except ValueError as error:
            raise BrokenBackup(f"{member.name}: {error}") from error
    written.add(key)


def _restore_signing_key(member: Member, target: RestoreTarget, force: bool, report: Report) -> None:
    path = target.signing_key
    if path is None:
        return
    if path.exists() and not force:
        report(f"note: {path} exists and is kept: tokens of the old installation do not work here")
        return
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(member.source.read())
    beside.replace(path)


def _build_anew(target: RestoreTarget) -> int:
    lost = [item.id for item in target.store.versions.list_kept() if item.state is VersionState.READY and not target.is_usable(item)]
    dump.queue_builds(target.store.database, lost)
    return len(lost)
