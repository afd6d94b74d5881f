"""Writes one snapshot of the database and all code that it refers to."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from sless import clock
from sless._version import __version__
from sless.backup import archive
from sless.backup.archive import ArchiveWriter
from sless.domain.ports import CodeStore
from sless.errors import NotFound
from sless.store import Store, dump

_PART_BYTES = 4 << 20
_DELETION_SEC = 0.5
"""How long the row of a deleted workload may remain without its code."""
_PROGRESS_SEC = 2.0

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSummary:
    schema: str
    blobs: int
    rows: int
    size_bytes: int
    """Size before compression."""
    encryption_keys: tuple[str, ...]
    """Ids of the keys that a restore needs. They are not in the file."""


@dataclass(slots=True)
class Progress:
    """Reports progress at intervals."""

    report: Report
    _next: float = field(default_factory=lambda: time.monotonic() + _PROGRESS_SEC)

    def at(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_SEC
            self.report(text)


def write(store: Store, code: CodeStore, target: BinaryIO, *, compressed: bool, signing_key: Path | None, report: Report) -> BackupSummary:
    """`signing_key`: a file that is included if it exists. Raises SlessError, ConfigError, OSError; then the target is unusable."""
    with dump.snapshot(store.database) as snapshot:
        manifest = _manifest_of(snapshot)
    with archive.writing(target, compressed=compressed) as out:
        out.add_json(archive.MANIFEST, manifest)
        if signing_key is not None and signing_key.exists():
            out.add_bytes(archive.SIGNING_KEY, signing_key.read_bytes())
        content = _Content(store=store, code=code, out=out, progress=Progress(report))
        rows, keys = content.write()
        out.end(keys)
        return BackupSummary(
            schema=manifest["schema"], blobs=len(content.written), rows=rows, size_bytes=out.size_bytes, encryption_keys=tuple(keys)
        )


def _manifest_of(snapshot: dump.Snapshot) -> dict[str, Any]:
    return {
        "format": archive.FORMAT,
        "format_version": archive.FORMAT_VERSION,
        "schema": snapshot.schema,
        "sless_version": __version__,
        "created_at": clock.now().isoformat(),
        "tables": snapshot.tables(),
    }


@dataclass(slots=True, kw_only=True)
class _Content:
    """`written` are keys of code in the file, `lost` keys that rows refer to but that do not exist."""

    store: Store
    code: CodeStore
    out: ArchiveWriter
    progress: Progress
    written: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def write(self) -> tuple[int, list[str]]:
        """Returns the number of rows and the ids of the keys that encrypt them."""
        while True:
            with dump.snapshot(self.store.database) as snapshot:
                vanished = self._write_code(snapshot)
                if not vanished:
                    rows = sum(_write_table(snapshot, name, self.out, self.progress) for name in snapshot.tables())
                    return rows, snapshot.encryption_keys()
            # It was probably just deleted, so the next snapshot will not refer to it. If it still does, the code is lost.
            self.lost |= vanished
            time.sleep(_DELETION_SEC)

    def _write_code(self, snapshot: dump.Snapshot) -> set[str]:
        """Writes code that is not in the file yet; returns keys whose code is newly missing."""
        vanished: set[str] = set()
        for key in snapshot.code_keys():
            if key in self.written:
                continue
            try:
                source = self.code.open(key)
            except NotFound:
                if key in self.lost:
                    self.progress.report(f"warning: code {key} is missing in the code store; its version is saved without it")
                else:
                    vanished.add(key)
                continue
            with source:
                size = source.seek(0, 2)
                source.seek(0)
                self.out.add_file(f"{archive.CODE}{key}", source, size)
            self.written.add(key)
            self.progress.at(f"code: {len(self.written)} uploads, {self.out.size_bytes / 1e6:.0f} MB")
        return vanished


def _write_table(snapshot: dump.Snapshot, name: str, out: ArchiveWriter, progress: Progress) -> int:
    rows = 0
    for number, (count, part) in enumerate(_parts_of(snapshot.rows(name)), start=1):
        out.add_bytes(f"{archive.TABLES}{name}/{number:06}", part)
        rows += count
        progress.at(f"{name}: {rows} rows, {out.size_bytes / 1e6:.0f} MB")
    return rows


def _parts_of(rows: Iterator[list[object]]) -> Iterator[tuple[int, bytes]]:
    """(number of rows, JSON lines) in parts that fit into memory."""
    lines: list[bytes] = []
    size = 0
    for row in rows:
        line = json.dumps(row, separators=(",", ":")).encode()
        lines.append(line)
        size += len(line) + 1
        if size >= _PART_BYTES:
            yield len(lines), b"\n".join(lines)
            lines, size = [], 0
    if lines:
        yield len(lines), b"\n".join(lines)
