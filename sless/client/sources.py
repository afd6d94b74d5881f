"""Writes the source of a version to disk."""

import io
import stat
import zipfile
from pathlib import Path

from sless.client.packing import PackingError


def unpack_source(data: bytes, folder: Path, *, replace_files: bool) -> list[str]:
    """Writes the files of the zip and returns their paths. Never writes outside the folder; existing files are an error unless
    `replace_files`."""
    root = folder.resolve()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [info for info in archive.infolist() if not info.is_dir()]
            targets = [_target_of(root, info.filename) for info in entries]
            _check_free(folder, targets, replace_files)
            for info, target in zip(entries, targets, strict=True):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(info))
                if (info.external_attr >> 16) & stat.S_IXUSR:
                    target.chmod(target.stat().st_mode | 0o111)
    except zipfile.BadZipFile as error:
        raise PackingError(f"expected a zip with the source: {error}") from error
    except OSError as error:
        raise PackingError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return sorted(info.filename for info in entries)


def _target_of(root: Path, name: str) -> Path:
    target = (root / name).resolve()
    if not target.is_relative_to(root) or target == root:
        raise PackingError(f"{name!r} is outside {root}: not written")
    return target


def _check_free(folder: Path, targets: list[Path], replace_files: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise PackingError(f"{folder}: expected a folder, found a file")
    present = [target for target in targets if target.exists()]
    if present and not replace_files:
        raise PackingError(f"{present[0]} already exists; --force overwrites files")
