"""Runs a child in bubblewrap: it sees a read-only system, the folders given to it, and only its own processes.

The child has its own mount, pid, ipc and uts namespaces, no capabilities and no terminal. It shares the server's network, because functions
may connect to any address. It keeps the process group in which it is started, so that it can be signalled, and its memory measured, from
outside; the group also has two small processes of bubblewrap.
"""

import functools
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sless.errors import ConfigError

_log = logging.getLogger(__name__)

_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "gai.conf", "group", "host.conf", "hosts", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "npmrc", "nsswitch.conf", "passwd", "pip.conf", "pki", "protocols",
    "resolv.conf", "services", "ssl", "timezone",
)  # fmt: skip
"""Files of /etc that programs read; the rest, such as /etc/shadow, is missing."""
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
# A shell sets the score, which only processes started afterwards inherit.
_OFFERED_TO_OOM_KILLER = 'echo 700 >/proc/self/oom_score_adj; exec "$@"'
_PROBE_SEC = 10.0
_FATAL = frozenset({"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGKILL", "SIGSEGV", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGXCPU", "SIGXFSZ"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Folders that a child may access besides the system. `tmp` is its /tmp. Other paths are the same inside. `compiles`: folders for
    compiled modules, to which only a child in a sandbox may write."""

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    compiles: tuple[Path, ...] = ()
    tmp: Path | None = None


class Sandbox:
    """Wraps commands in bubblewrap. `program` is its path, `shown` are further folders that children may read."""

    def __init__(self, program: str, shown: Sequence[Path] = ()) -> None:
        self._program = program
        self._system = (*_system(), *_read("--ro-bind", _interpreter()), *_read("--ro-bind-try", shown))

    def command_of(self, argv: Sequence[str], cwd: Path, access: Access) -> tuple[str, ...]:
        binary = os.path.realpath(argv[0])
        reads = [*access.reads, *(() if binary.startswith("/usr/") else (Path(binary).parents[1],))]
        return (
            "/bin/sh", "-c", _OFFERED_TO_OOM_KILLER, "sh", self._program, *_NAMESPACES, "--cap-drop", "ALL", *self._system,
            *(("--bind", str(access.tmp), "/tmp") if access.tmp else ("--tmpfs", "/tmp")),
            *_read("--ro-bind-try", reads), *_read("--bind", (*access.writes, *access.compiles)), "--remount-ro", "/",
            "--chdir", str(cwd), "--", binary, *argv[1:],
        )  # fmt: skip


def sandbox_of(mode: str, shown: Sequence[str] = ()) -> Sandbox | None:
    """`mode` is SLESS_LOCAL_SANDBOX, `shown` SLESS_LOCAL_SANDBOX_READ. Raises ConfigError if bubblewrap is required and does not work."""
    if mode == "none":
        return None
    program, reason = find_bubblewrap()
    if program is not None:
        return Sandbox(program, tuple(map(Path, shown)))
    if mode == "bwrap":
        raise ConfigError(f"SLESS_LOCAL_SANDBOX=bwrap: {reason}")
    return None


def sandbox_text_of(mode: str) -> str:
    """Describes the sandbox that is used, for messages."""
    if mode == "none":
        return "none (SLESS_LOCAL_SANDBOX=none)"
    program, reason = find_bubblewrap()
    return "bubblewrap" if program is not None else f"none ({reason})"


@functools.cache
def find_bubblewrap() -> tuple[str | None, str]:
    """The path of bubblewrap, or the reason why it cannot be used. Tried once per process."""
    program = shutil.which("bwrap")
    if program is None:
        return None, "bubblewrap is not installed"
    # Try it, because containers often lack user namespaces, or may not mount /proc.
    command = Sandbox(program).command_of(("/bin/true",), Path("/"), Access())
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PROBE_SEC, check=False, env={})
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"{program} does not run: {error}"
    if done.returncode:
        return None, f"bubblewrap does not work here: {done.stderr.strip()[-300:] or f'exit code {done.returncode}'}"
    return program, ""


def warn_without_sandbox(mode: str) -> None:
    """Logs which sandbox is used; without one, warns of the reason and the consequence. Call it once per server."""
    text = sandbox_text_of(mode)
    if text == "bubblewrap":
        _log.info("functions and builds run in a sandbox: %s", text)
    elif mode == "auto":
        _log.warning("functions and builds run without a sandbox, %s: they can read each other's files, see SECURITY.md", text)


def code_of_sandboxed(code: int) -> int:
    """bubblewrap reports a child that was ended by a signal as 128 + its number, like a shell."""
    try:
        return 128 - code if signal.Signals(code - 128).name in _FATAL else code
    except ValueError:
        return code


def inner_processes_of(outer: int) -> list[int]:
    """The processes of the group without bubblewrap's own two, `outer` and the first one of the namespace."""
    found = [(pid, parent) for pid, parent, group in _processes() if group == outer and pid != outer]
    return [pid for pid, parent in found if parent != outer]


def _processes() -> Iterator[tuple[int, int, int]]:
    """(pid, parent, group) of all processes."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(entry), int(fields[1]), int(fields[2])


def _system() -> Iterator[str]:
    """Options for the system's folders. If the server is root, so are its children (without capabilities), so files of /proc that root may
    write without a capability are read-only."""
    yield from ("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/dev/null", "/dev/tty")
    yield from ("--ro-bind", "/proc/sys", "/proc/sys", "--ro-bind-try", "/proc/fs", "/proc/fs")
    if os.path.exists("/proc/sysrq-trigger"):
        yield from ("--ro-bind", "/dev/null", "/proc/sysrq-trigger")
    for name in _TOP:
        path = f"/{name}"
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for name in _ETC:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def _interpreter() -> list[Path]:
    """The folder of the Python that runs functions and pip, unless it is part of the system."""
    return [] if sys.base_prefix == "/usr" else [Path(sys.base_prefix)]


def _read(option: str, paths: Sequence[Path]) -> Iterator[str]:
    for path in dict.fromkeys(map(str, paths)):
        yield from (option, path, path)
