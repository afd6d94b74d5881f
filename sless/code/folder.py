"""Keys of the code store, and a code store in a folder with one file per key."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from sless import ids
from sless.domain.blobs import StoredBlob
from sless.errors import FULL_ERRNOS, NotFound, storage_full

_KEY = re.compile(r"[a-z0-9][-a-z0-9]*/[a-z0-9]+/[0-9a-f]{64}-[a-z0-9]+\.zip")


INSTALLATION_CHARS = 8


def new_code_key(namespace: str, workload_id: str, sha256: str, installation: str = "") -> str:
    """`ns/workload_id/sha256-upload.zip`; `upload` begins with the id of the installation."""
    return check_key(f"{namespace}/{workload_id}/{sha256}-{installation}{ids.new_id(8)}.zip")


def is_owned(key: str, installation: str) -> bool:
    """Whether this installation created the key. False for keys of older versions, which do not name their installation."""
    upload = key.rpartition("-")[2].removesuffix(".zip")
    return len(upload) == INSTALLATION_CHARS + 8 and upload.startswith(installation)


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def check_key(key: str) -> str:
    """Raises ValueError for a malformed key; a valid one is safe as a path."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"expected a key of the form ns/workload_id/sha256-upload.zip, found {key!r}")
    return key


class FolderCodeStore:
    """Readers see complete files only. `put` returns once the data is on disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, key: str, source: Path) -> None:
        """Raises STORAGE_FULL, leaving nothing behind."""
        target = self._root / check_key(key)
        fresh = target.with_name(f".{target.name}.{ids.new_id(8)}")
        try:
            _copy(source, fresh)
            os.replace(fresh, target)
            _sync_folder(target.parent)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            if error.errno in FULL_ERRNOS:
                raise storage_full() from error
            raise

    def open(self, key: str) -> BinaryIO:
        try:
            return (self._root / check_key(key)).open("rb")
        except FileNotFoundError as error:
            raise NotFound("code", key) from error

    def list_blobs(self) -> Iterator[StoredBlob]:
        for path in self._root.glob("*/*/*.zip"):
            key = path.relative_to(self._root).as_posix()
            if is_key(key):
                known = path.stat()
                yield StoredBlob(key=key, size_bytes=known.st_size, stored_at=datetime.fromtimestamp(known.st_mtime, UTC))

    def delete(self, key: str) -> None:
        path = self._root / check_key(key)
        path.unlink(missing_ok=True)
        for folder in (path.parent, path.parent.parent):
            try:
                folder.rmdir()
            except OSError:  # not empty, or already removed
                return


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as read, _create(target) as written:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


def _create(target: Path) -> BinaryIO:
    """Retries, because a concurrent `delete` may remove the empty folder."""
    for _ in range(5):
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            return target.open("xb")
        except FileNotFoundError:
            continue
    raise FileNotFoundError(errno.ENOENT, "the folder keeps disappearing", str(target.parent))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
