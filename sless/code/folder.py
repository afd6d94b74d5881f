"""Code in a folder: one file per key."""

import errno
import os
import shutil
from pathlib import Path
from typing import BinaryIO

from sless import ids
from sless.code.keys import check_key
from sless.errors import FULL_ERRNOS, NotFound, storage_full


class FolderCodeStore:
    """A reader sees a whole file or none; `put` has reached the disk when it returns."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, key: str, source: Path) -> None:
        """Raises STORAGE_FULL and leaves nothing behind."""
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

    def delete(self, key: str) -> None:
        path = self._root / check_key(key)
        path.unlink(missing_ok=True)
        for folder in (path.parent, path.parent.parent):
            try:
                folder.rmdir()
            except OSError:  # not empty, or gone
                return


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as read, _create(target) as written:
        shutil.copyfileobj(read, written, 1 << 20)
        written.flush()
        os.fsync(written.fileno())


def _create(target: Path) -> BinaryIO:
    """`delete` takes empty folders away: perhaps just now, so the folder is made once more."""
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
