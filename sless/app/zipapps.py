"""Unpacked folders of earlier builds of the zipapp that runs.

Its first code (`.ci/release/zipapp_main.py`) marks the folder of a running build with a lock, and removes unused folders at the first start
of a new build. One that was still in use then stays, until `sless gc`.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sless.app.garbage import Garbage


def old_builds(archive: Path, root: Path) -> Iterator[Garbage]:
    """`archive` is the zipapp, `root` the folder into which it unpacks itself. The folder of a running build is locked by its process."""
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.name.startswith(f"{archive.name}_") and folder.is_dir():
            with _held(root, folder.name) as free:
                if free:
                    yield Garbage(kind="zipapp", name=str(folder), size_bytes=None, remove=partial(_remove, root, folder.name))


def _remove(root: Path, name: str) -> None:
    """Leaves it if a process has started it in the meantime."""
    with _held(root, name) as free:
        if free:
            shutil.rmtree(root / name)
            _mark(root, name).unlink()


@contextmanager
def _held(root: Path, name: str) -> Iterator[bool]:
    """Whether the folder is unused. Nothing can start to use it during the block."""
    with _mark(root, name).open("a") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _mark(root: Path, name: str) -> Path:
    return root / f".{name}_used"
