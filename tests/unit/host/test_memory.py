import subprocess
import sys
import threading

import pytest

from sless.host.memory import MemoryWatch, machine_memory_mb, used_bytes_by_group

HOLD = "x = bytearray({mb} * 2**20)\nimport subprocess, sys\n{more}\nprint('ready', flush=True)\nsys.stdin.read()"


@pytest.fixture
def holder():
    started = []

    def start(mb: int, more: str = "") -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", HOLD.format(mb=mb, more=more)],
            process_group=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.communicate()


def test_memory_of_a_group_is_summed(holder):
    child = "x = bytearray(40 * 2**20); print(1, flush=True); input()"
    process = holder(30, f"c = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=-1, stdin=0)\nc.stdout.readline()")
    used_mb = used_bytes_by_group({process.pid})[process.pid] / 2**20
    assert 70 <= used_mb < 100


def test_shared_memory_counts(holder):
    process = holder(1, "import mmap\nm = mmap.mmap(-1, 50 * 2**20)\nm.write(b'x' * (50 * 2**20))")
    assert used_bytes_by_group({process.pid})[process.pid] >= 50 * 2**20


def test_an_unknown_group_has_no_entry():
    assert used_bytes_by_group({2**22 - 1}) == {}


def test_exceeding_the_limit_is_reported_once_and_only_for_that_group(holder):
    over, under = holder(60), holder(10)
    watch, reports, done = MemoryWatch(), [], threading.Event()
    watch.add(under.pid, 64, lambda used: reports.append(("under", used)))
    watch.add(over.pid, 32, lambda used: (reports.append(("over", used)), done.set()))
    assert done.wait(10)
    watch.close()
    assert len(reports) == 1 and reports[0][0] == "over" and 60 <= reports[0][1] < 90


def test_a_removed_group_is_not_watched(holder):
    process = holder(60)
    watch, reports = MemoryWatch(), []
    watch.add(process.pid, 32, reports.append)
    watch.remove(process.pid)
    watch.close()
    assert reports == []


@pytest.mark.parametrize(
    ("files", "found_mb"),
    [
        ({}, 4000),
        ({"sys/fs/cgroup/memory.max": "max"}, 4000),
        ({"sys/fs/cgroup/memory.max": str(512 * 2**20)}, 512),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": str(256 * 2**20)}, 256),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 4000),
    ],
)
def test_the_memory_of_the_machine_or_of_the_container(tmp_path, files, found_mb):
    for path, text in ({"proc/meminfo": f"MemFree: 1 kB\nMemTotal:  {4000 * 1024} kB\n"} | files).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert machine_memory_mb(tmp_path) == found_mb


def test_this_machine_has_memory():
    assert machine_memory_mb() > 256
