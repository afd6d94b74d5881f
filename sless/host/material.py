"""Unpacked code and installed dependencies on disk: `data_dir/versions/<hash>/function`, `data_dir/deps/<hash>`.

Both are built in a temporary folder and renamed, so readers never see an incomplete one and concurrent builders do not interfere.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from sless.children import run_child
from sless.domain.ports import CodeStore
from sless.domain.runtimes import RUNTIMES
from sless.host import unzip
from sless.host.rundir import remove_tree
from sless.host.unprivileged import hand_over
from sless.ids import new_id

PROGRAM = "program"
"""Name of the program in the folder that a build of a compiled language creates."""
_UNPACK_SEC = 300.0
_YOUNG_SEC = 3600.0
"""Younger folders are never collected: a build creates them before the store knows about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterialKey:
    """Identifies an unpacked folder: the fields of model.Version with these names."""

    code_key: str
    artifact: str
    runtime: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """`deps_dir` is the value for SLESS_DEPS_DIR; None when nothing was installed or the runtime finds it by itself. `program`: for
    compiled languages, runtime and code in one."""

    code_dir: Path
    deps_dir: Path | None
    program: Path | None = None
    installed: Path | None = None
    """The folder that a build created, in any language."""

    def reads(self) -> tuple[Path, ...]:
        """Paths that a child must be able to read to run this."""
        return (self.code_dir, *((self.installed,) if self.installed is not None else ()))


class Material:
    def __init__(self, data_dir: Path, code: CodeStore, *, deps: Path | None = None) -> None:
        """`deps`: a folder of installed dependencies outside `data_dir`, which outlives it."""
        self._versions = data_dir / "versions"
        self._deps = deps or data_dir / "deps"
        self._code = code
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._locks_lock = threading.Lock()
        for folder in (self._versions, self._deps):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def ensure(self, key: MaterialKey) -> Unpacked:
        """Raises errors.NotFound when the code is gone, MaterialLost when its dependencies are, OSError when the disk is full."""
        deps = self.deps_dir(key.artifact) if key.artifact else None
        if deps is not None and not deps.is_dir():
            raise MaterialLost("the build of this version is no longer on this server: upload it again")
        language = RUNTIMES[key.runtime].language
        modules = deps / "node_modules" if deps is not None and language == "node" else None
        code_dir = self._ensure_folder(_folder_name_of(key), key.code_key, modules)
        program = deps / PROGRAM if deps is not None and language == "go" else None
        return Unpacked(code_dir=code_dir, deps_dir=deps if language == "python" else None, program=program, installed=deps)

    def deps_dir(self, artifact: str) -> Path:
        return self._deps / artifact

    def keep_deps(self, made: Path, artifact: str) -> None:
        """Moves `made`, a folder in `staging`, to the dependency folder of this name, unless another server was faster."""
        if os.lstat(made).st_uid != os.geteuid():  # a root server's builds run as another user, whose functions must not change it
            hand_over(made, os.geteuid(), os.getegid())
        _rename_unless_there(made, self.deps_dir(artifact))

    def unpack_into(self, code_key: str, folder: Path) -> None:
        """Unpacks the upload into a new folder."""
        packed = folder.with_name(folder.name + ".zip")
        try:
            with self._code.open(code_key) as source, packed.open("wb") as out:
                shutil.copyfileobj(source, out, 256 * 1024)
            folder.mkdir(mode=0o755)
            if unzip.is_large(str(packed)):
                _unpack_in_child(packed, folder)
            else:
                unzip.unpack(str(packed), str(folder))
        finally:
            packed.unlink(missing_ok=True)

    @contextlib.contextmanager
    def staging(self) -> Iterator[Path]:
        """A temporary folder on the disk of the dependencies; removed at the end unless it was renamed."""
        folder = self._deps / f".tmp-{new_id(12)}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            remove_tree(folder)

    def lock_of(self, name: str) -> threading.Lock:
        """The lock for building the folder of this name. It exists as long as it is in use."""
        with self._locks_lock:
            return self._locks.setdefault(name, threading.Lock())

    def collect(self, keep: set[MaterialKey], *, young_sec: float = _YOUNG_SEC) -> int:
        """Removes folders of versions and dependencies not in `keep`, which must include running instances. Returns their number."""
        names = {_folder_name_of(key) for key in keep}
        artifacts = {key.artifact for key in keep}
        removed = 0
        for parent, kept in ((self._versions, names), (self._deps, artifacts)):
            for folder in parent.iterdir():
                if folder.name not in kept and _age_sec(folder) >= young_sec:
                    doomed = folder.with_name(f".old-{new_id(8)}")
                    folder.rename(doomed)
                    remove_tree(doomed)
                    removed += 1
        return removed

    def _ensure_folder(self, name: str, code_key: str, modules: Path | None) -> Path:
        folder = self._versions / name
        with self.lock_of(name):
            if not (folder / "function").is_dir():
                staged = self._versions / f".tmp-{new_id(12)}"
                staged.mkdir(mode=0o700)
                try:
                    self.unpack_into(code_key, staged / "function")
                    if modules is not None and modules.is_dir() and not (staged / "function" / "node_modules").exists():
                        (staged / "function" / "node_modules").symlink_to(modules)
                    _rename_unless_there(staged, folder)
                finally:
                    remove_tree(staged)
        os.utime(folder)
        return folder / "function"


class MaterialLost(Exception):
    """The result of a build is no longer on this disk. The text is for users."""


def _folder_name_of(key: MaterialKey) -> str:
    """Name of the folder of unpacked code. Only for Node.js does it depend on the installed dependencies (node_modules is a link). A Python
    version has the same folder before and after its build, so builder and backend share it."""
    artifact = key.artifact if RUNTIMES[key.runtime].language == "node" else ""
    return hashlib.sha256("\0".join((key.runtime, key.code_key, artifact)).encode()).hexdigest()[:24]


def _rename_unless_there(staged: Path, folder: Path) -> None:
    try:
        staged.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster, and its folder is equal
            raise


def _unpack_in_child(packed: Path, folder: Path) -> None:
    try:
        done = run_child("sless.host.unzip", json.dumps([str(packed), str(folder)]).encode(), _UNPACK_SEC, urgent=True)
    except subprocess.TimeoutExpired:
        raise OSError(f"unpacking took longer than {_UNPACK_SEC:.0f} s") from None
    if done.returncode:
        raise OSError(f"unpacking failed: {done.stderr.decode(errors='replace').strip()[-500:]}")


def _age_sec(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0
