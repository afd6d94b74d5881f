"""Without a sandbox, runs the children of a root server as a user who cannot read the server's secrets.

All children have the same user, so they can read each other's files: only a sandbox isolates tenants. That user may traverse the server's
folders, but not list them. Paths that a child may read or write are opened for it when it starts; those of builds are closed afterwards
(`Material.keep_deps`).
"""

import functools
import logging
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sless import assets
from sless.host.sandbox import Access

_log = logging.getLogger(__name__)

USER = "nobody"
_PROBE_SEC = 10.0
# Reads the file in its first argument, and traverses the folder in the second.
_PROBE = "import os, sys; open(sys.argv[1]).close(); os.stat(sys.argv[2] + '/.')"


@dataclass(frozen=True, slots=True)
class Unprivileged:
    """`folders` are those of the server, with everything in them."""

    uid: int
    gid: int
    folders: tuple[Path, ...]

    def options(self) -> dict[str, Any]:
        """Options for subprocess.Popen."""
        return {"user": self.uid, "group": self.gid, "extra_groups": (), "umask": 0o022}

    def admit(self, access: Access) -> None:
        """Opens the paths of a child. Call this before it starts. Raises OSError."""
        for path in access.reads:
            self._open(path)
        for path in (*access.writes, *((access.tmp,) if access.tmp else ())):
            self._open(path)
            self._give(path)

    def _open(self, path: Path) -> None:
        """Lets everyone read the path, and traverse the folders that lead there."""
        folder = next((item for item in self.folders if path == item or item in path.parents), None)
        if folder is None:
            return
        for parent in path.parents:
            if parent == folder or folder in parent.parents:
                _add_mode(parent, 0o011)
        _add_mode(path, 0o055 if path.is_dir() else 0o044)

    def _give(self, path: Path) -> None:
        if os.lstat(path).st_uid != self.uid:
            hand_over(path, self.uid, self.gid)


def hand_over(path: Path, uid: int, gid: int) -> None:
    """Changes the owner of a path with everything in it, without following links."""
    for item in _all_in(path):
        os.chown(item, uid, gid, follow_symlinks=False)


def unprivileged_of(*folders: Path) -> Unprivileged | None:
    """None if the server is not root, or if that user cannot reach the runtimes and `folders`, which is then logged."""
    if os.geteuid() != 0:
        return None
    found = [folder.absolute() for folder in folders]
    try:
        account = pwd.getpwnam(USER)
    except KeyError:
        reason = f"there is no user {USER}"
    else:
        for folder in found:
            _add_mode(folder, 0o011)
        reason = _obstacle_of(account.pw_uid, account.pw_gid, tuple(found))
        if not reason:
            return Unprivileged(account.pw_uid, account.pw_gid, tuple(found))
    _log.warning("functions and builds run as root and can read every secret of this server: %s; see SECURITY.md", reason)
    return None


@functools.cache
def _obstacle_of(uid: int, gid: int, folders: tuple[Path, ...]) -> str:
    """Why that user cannot run functions; "" if it can."""
    runtime = next(assets.runtimes_dir().absolute().glob("*/runtime.py"))
    for folder in folders:
        command = [sys.executable, "-I", "-S", "-c", _PROBE, str(runtime), str(folder)]
        options = Unprivileged(uid, gid, folders).options()
        try:
            done = subprocess.run(
                command,
                cwd="/",
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PROBE_SEC,
                check=False,
                **options,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"user {USER} cannot start {sys.executable}: {error}"
        if done.returncode:
            return f"as user {USER}: {done.stderr.strip().rpartition(chr(10))[2]}"
    return ""


def _add_mode(path: Path, bits: int) -> None:
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & bits != bits:
        os.chmod(path, mode | bits)


def _all_in(path: Path) -> Iterator[str]:
    yield str(path)
    if path.is_dir() and not path.is_symlink():
        for folder, folders, files in os.walk(path):
            yield from (os.path.join(folder, name) for name in (*folders, *files))
