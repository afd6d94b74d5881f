"""Sockets, homes and temporary files of one server process: `<run_dir>/<owner>/…`, mode 0700, locked while the process lives."""

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sless.errors import ConfigError
from sless.ids import new_id

MAX_SOCKET_PATH_BYTES = 100
"""sockaddr_un holds 107 bytes. Node silently truncates longer paths, so two sockets could become one."""
_SOCKET_NAME_BYTES = len("/12345678/12345678.d/s")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Folders of one child: `home` and `tmp` in `root`, which is removed with it."""

    root: Path
    home: Path
    tmp: Path


class RunDir:
    """`owner` is the name of this process's folder."""

    def __init__(self, base: Path, data_dir: Path) -> None:
        self._base = base if base != Path() else default_base(data_dir)
        _check_length(self._base)
        _ensure_private(self._base)
        self.owner = new_id(8)
        self.path = self._base / self.owner
        self.path.mkdir(mode=0o700)
        self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        for part in ("pids", "homes"):
            (self.path / part).mkdir(mode=0o700)

    @property
    def base(self) -> Path:
        """The parent of the folders of all servers that share it."""
        return self._base

    def socket_path(self, name: str) -> Path:
        """Path of the instance's socket, in a separate folder, so that a sandbox can give access to it alone."""
        return self.path / f"{name[:8]}.d" / "s"

    def make_home(self, name: str) -> Home:
        root = self.home_root(name)
        home = Home(root=root, home=root / "home", tmp=root / "tmp")
        for folder in (root, home.home, home.tmp):
            folder.mkdir(mode=0o700, exist_ok=True)
        return home

    def home_root(self, name: str) -> Path:
        return self.path / "homes" / name

    def note_pid(self, pid: int) -> None:
        """Records a group leader, so that it can be killed if this server dies."""
        (self.path / "pids" / str(pid)).write_text(str(start_ticks_of(pid) or 0))

    def forget_pid(self, pid: int) -> None:
        (self.path / "pids" / str(pid)).unlink(missing_ok=True)

    def is_alive(self, owner: str) -> bool:
        """Whether the server that owns this folder is still running."""
        if owner == self.owner:
            return True
        lock = _try_lock(self._base / owner)
        if lock is None:
            return (self._base / owner / "lock").exists()
        os.close(lock)
        return False

    def clean_leftovers(self) -> int:
        """Kills the children of dead servers and removes their folders. Returns the number of processes killed."""
        ended = 0
        for folder in self._base.iterdir():
            if folder.name == self.owner or not folder.is_dir():
                continue
            lock = _try_lock(folder)
            if lock is None:
                continue
            ended += end_left_behind(folder)
            remove_tree(folder)
            os.close(lock)
        if ended:
            _log.warning("killed %d process(es) left behind by an earlier server", ended)
        return ended

    def end_strays(self) -> int:
        """Kills processes that left their group and outlived it, so that their home is gone. Returns their number."""
        homes = self.path / "homes"
        return _end_marked(homes, lambda name: not (homes / name).exists())

    def close(self) -> None:
        _end_marked(self.path / "homes")
        remove_tree(self.path)
        os.close(self._lock)
        with contextlib.suppress(OSError):
            self._base.rmdir()


def default_base(data_dir: Path) -> Path:
    """One folder per user and data folder, so that servers on one machine do not collide."""
    name = f"sless-{os.getuid()}-{hashlib.sha256(os.fsencode(data_dir.absolute())).hexdigest()[:8]}"
    base = Path(tempfile.gettempdir()) / name
    return base if len(os.fsencode(base)) + _SOCKET_NAME_BYTES <= MAX_SOCKET_PATH_BYTES else Path("/tmp") / name


def start_ticks_of(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, which together with the pid is unique. None: no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.rpartition(")")[2].split()[19])


def remove_tree(folder: Path) -> None:
    """Removes a folder even if user code removed write permissions in it. A missing folder is not an error."""

    def unlock(function, path, error_info):
        if not isinstance(error_info[1], FileNotFoundError):
            os.chmod(os.path.dirname(path), 0o700)
            with contextlib.suppress(OSError):
                os.chmod(path, 0o700, follow_symlinks=False) if os.path.islink(path) else os.chmod(path, 0o700)
            function(path)

    try:
        shutil.rmtree(folder, onerror=unlock)
    except FileNotFoundError:
        pass
    except OSError as error:
        _log.warning("cannot remove %s: %s", folder, error)


def end_left_behind(folder: Path) -> int:
    """Kills the children of a dead server, given its folder. Returns the number of processes ended."""
    return _end_noted(folder / "pids") + _end_marked(folder / "homes")


def _check_length(base: Path) -> None:
    longest = len(os.fsencode(base.absolute())) + _SOCKET_NAME_BYTES
    if longest > MAX_SOCKET_PATH_BYTES:
        most = MAX_SOCKET_PATH_BYTES - _SOCKET_NAME_BYTES
        raise ConfigError(f"SLESS_RUN_DIR: expected a path of at most {most} bytes (unix sockets lie in it), found {str(base)!r}")


def _ensure_private(base: Path) -> None:
    """Ensures that only we own the folder, since in /tmp others could create it first."""
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(base)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ConfigError(f"SLESS_RUN_DIR: expected a folder of user {os.getuid()}, found {str(base)!r} of user {found.st_uid}")
    if found.st_mode & 0o066:  # traversing it is harmless, and necessary for children that run as another user
        os.chmod(base, 0o700)


def _try_lock(folder: Path) -> int | None:
    """The locked descriptor, None if another process holds the lock."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _end_noted(pids: Path) -> int:
    ended = 0
    for note in pids.iterdir() if pids.is_dir() else ():
        ticks = note.read_text().strip()
        if note.name.isdigit() and ticks.isdigit() and start_ticks_of(int(note.name)) == int(ticks):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(note.name), signal.SIGKILL)
                ended += 1
    return ended


def _end_marked(homes: Path, applies: Callable[[str], bool] = lambda name: True) -> int:
    """Kills processes that left their group: descendants still have HOME or TMPDIR in this folder, unless they hide on purpose. `applies`
    gets the name of the home."""
    mark = re.compile(rb"(?:^|\0)(?:HOME|TMPDIR)=" + re.escape(os.fsencode(homes)) + rb"/([^/\0]+)")
    ended = 0
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            found = mark.search(Path("/proc", entry, "environ").read_bytes())
        except OSError:
            continue
        if found and applies(os.fsdecode(found[1])):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(entry), signal.SIGKILL)
                ended += 1
    return ended
