"""The served folder: detects changes, and keeps its code as domain.ports.CodeStore."""

import hashlib
import io
import os
import time
from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO

from sless.client.packing import PackingError, list_files
from sless.domain.blobs import StoredBlob
from sless.errors import NotFound

POLL_SEC = 0.04
SETTLE_SEC = 0.01
"""Polling interval. A save may consist of several writes, so it is complete once two polls return the same."""
_WORK_SHARE = 0.05
"""Maximum share of time spent on polling, for folders with very many files."""
_RECENT_SEC = 5.0
_KEPT = 2

Marks = dict[str, tuple[int, int, int]]
"""path → modification time in nanoseconds, size, inode"""


class Watcher:
    """Detects saves of files that an upload would contain."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken: Marks = {}
        self._last_marks: Marks = {}
        self._error = ""
        self._due = 0.0

    def wait_sec(self) -> float:
        return max(0.0, self._due - time.monotonic())

    def find_change(self) -> list[str] | None:
        """Paths that changed since the last result, once the save is complete; None if there are none. If the folder cannot be read, raises
        PackingError once per reason."""
        began = time.monotonic()
        if began < self._due:
            return None
        self._due = began + POLL_SEC
        try:
            marks = marks_of(self._folder)
        except PackingError as error:
            if str(error) == self._error:
                return None
            self._error = str(error)
            raise
        settled = marks == self._last_marks or not self._taken
        self._last_marks = marks
        now = time.monotonic()
        self._due = now + max(POLL_SEC if settled else SETTLE_SEC, (now - began) / _WORK_SHARE)
        if not settled or (marks == self._taken and not self._error):
            return None
        changed = {path for path, _ in marks.items() ^ self._taken.items()}
        self._taken, self._error = marks, ""
        return sorted(changed)

    def saved_at(self) -> float:
        """Unix time of the newest save: the time of the newest file, unless files were only moved or removed."""
        newest, now = max((mark[0] for mark in self._taken.values()), default=0) / 1e9, time.time()
        return newest if 0 <= now - newest <= _RECENT_SEC else now


def marks_of(folder: Path) -> Marks:
    """Raises PackingError."""
    marks: Marks = {}
    for path in list_files(folder):
        try:
            found = os.stat(folder / path)
        except FileNotFoundError:  # replaced after the listing
            continue
        marks[path] = (found.st_mtime_ns, found.st_size, found.st_ino)
    return marks


class FolderCode:
    """The latest packed versions of the folder, in memory."""

    def __init__(self) -> None:
        self._zips: OrderedDict[str, bytes] = OrderedDict()

    def keep(self, data: bytes) -> str:
        """Stores a package and returns its key; equal bytes have equal keys."""
        key = f"dev/{hashlib.sha256(data).hexdigest()}.zip"
        self._zips[key] = data
        self._zips.move_to_end(key)
        while len(self._zips) > _KEPT:
            self._zips.popitem(last=False)
        return key

    def put(self, key: str, source: Path) -> None:
        self._zips[key] = source.read_bytes()

    def list_blobs(self) -> list[StoredBlob]:
        """Returns nothing, because the versions disappear with the process."""
        return []

    def open(self, key: str) -> BinaryIO:
        if key not in self._zips:
            raise NotFound("code", key)
        return io.BytesIO(self._zips[key])

    def delete(self, key: str) -> None:
        self._zips.pop(key, None)
