"""Unpacks a normalised zip into an empty folder, a large one in a child process: inflating it holds the interpreter lock, which must not
be the server's. The child's `main` reads the paths of zip and folder as JSON.
"""

import json
import os
import shutil
import stat
import sys
import zipfile

LARGE_BYTES = 512 * 1024
LARGE_FILES = 100
"""Limits above which a child should unpack it (measured: below, unpacking takes less than 20 ms)."""


def is_large(path: str) -> bool:
    """Whether the zip at `path` should be unpacked in a child. Raises zipfile.BadZipFile."""
    if os.stat(path).st_size > LARGE_BYTES:
        return True
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    return len(entries) > LARGE_FILES or sum(entry.file_size for entry in entries) > 4 * LARGE_BYTES


def unpack(path: str, folder: str) -> None:
    """Files become read-only; execute bits are kept. Raises ValueError for a name or a link that leads out of `folder`."""
    root = os.path.realpath(folder)
    links: list[tuple[str, str]] = []
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            target = os.path.normpath(os.path.join(root, entry.filename))
            if not _is_inside(target, root):
                raise ValueError(f"{entry.filename!r} leads out of the code folder")
            mode = entry.external_attr >> 16
            if entry.is_dir():
                os.makedirs(target, exist_ok=True)
            elif stat.S_ISLNK(mode):
                links.append((target, archive.read(entry).decode()))
            else:
                _write(archive, entry, target, 0o555 if mode & 0o111 else 0o444)
    for target, to in links:  # last, so that no file can be written through one
        if os.path.isabs(to) or not _is_inside(os.path.normpath(os.path.join(os.path.dirname(target), to)), root):
            raise ValueError(f"the link {os.path.relpath(target, root)!r} leads out of the code folder")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(to, target)


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: str, mode: int) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with archive.open(entry) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out, 256 * 1024)
    os.chmod(target, mode)


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep)


def main() -> None:
    try:
        unpack(*json.load(sys.stdin))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(f"{type(error).__name__}: {error}")
