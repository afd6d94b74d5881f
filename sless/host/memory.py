"""The memory watch: anonymous and shared memory of whole process groups, read from /proc twice a second."""

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

INTERVAL_SEC = 0.5
_NEAR = 0.5
_NEAR_INTERVAL_SEC = 0.1
"""Groups above half of their limit are checked more often: page faults can fill gigabytes in two seconds."""
_ROOT = Path("/")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    limit_mb: int
    on_over: Callable[[int], None]


def machine_memory_mb(root: Path = _ROOT) -> int:
    """Memory of this machine, or of the container if that has less."""
    found = next(line for line in (root / "proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    total_mb = int(found.split()[1]) // 1024
    for name in ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # the other version of cgroups, or "max"
            total_mb = min(total_mb, int((root / name).read_text()) // 2**20)
    return total_mb


class MemoryWatch:
    """Calls `on_over(used_mb)` once, from its thread, when a group exceeds its limit, then stops watching it."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="sless-memory", daemon=True)
        self._thread.start()

    def add(self, group: int, limit_mb: int, on_over: Callable[[int], None]) -> None:
        with self._changed:
            self._watched[group] = _Watched(limit_mb=limit_mb, on_over=on_over)
            self._changed.notify()

    def remove(self, group: int) -> None:
        with self._changed:
            self._watched.pop(group, None)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        pause = INTERVAL_SEC
        while self._wait(pause):
            try:
                pause = self._check()
            except Exception:
                _log.exception("the memory watch failed")

    def _wait(self, pause_sec: float) -> bool:
        with self._changed:
            while not self._watched and not self._closing:
                self._changed.wait()
            self._changed.wait_for(lambda: self._closing, pause_sec)
            return not self._closing

    def _check(self) -> float:
        with self._changed:
            watched = dict(self._watched)
        used = used_bytes_by_group(set(watched))
        nearest = 0.0
        for group, used_bytes in used.items():
            share = used_bytes / (watched[group].limit_mb * 2**20)
            nearest = max(nearest, share if share <= 1 else 0)
            if share > 1:
                self.remove(group)
                watched[group].on_over(-(-used_bytes // 2**20))
        return _NEAR_INTERVAL_SEC if nearest > _NEAR else INTERVAL_SEC


def out_of_memory_words_of(used_mb: int, limit_mb: int) -> str:
    return f"out of memory: used {used_mb} of {limit_mb} MB"


def used_bytes_by_group(groups: set[int]) -> dict[int, int]:
    """RssAnon + RssShmem of each group, without page cache and program text: an idle Node has 42 MB resident but 7 MB of its own."""
    used: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            group = _group_of(entry)
            if group in groups:
                used[group] = used.get(group, 0) + _own_bytes_of(entry)
    return used


def _group_of(pid: str) -> int:
    try:
        return os.getpgid(int(pid))
    except (ProcessLookupError, PermissionError):
        return -1


def _own_bytes_of(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            text = status.read()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 1024 * sum(int(line.split()[1]) for line in text.splitlines() if line.startswith((b"RssAnon:", b"RssShmem:")))
