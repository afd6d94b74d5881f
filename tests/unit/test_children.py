"""What child processes of a local server can read of it, and how processes end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sless.children import run_child

ROOT = Path(__file__).resolve().parents[2]
AS_USER = """
import ctypes, os
from sless.children import hide_from_children
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # a change of user hides memory, too

def read_by_child():
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        open(f"/proc/{os.getppid()}/environ", "rb").read()
        open(f"/proc/{os.getppid()}/mem", "rb").close()
    except PermissionError:
        os._exit(1)
    os._exit(0)

print(read_by_child())
hide_from_children()
print(read_by_child())
os.close(os.open(f"/proc/self/fd/{os.pipe()[0]}", os.O_RDONLY))
print("opened")
"""
SERVES = """
import ctypes, gc, os, sys
from pathlib import Path
from sless import server
from sless.config import Settings

def factory(settings):
    print("dumpable", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
    print("frozen", gc.get_freeze_count() > 10_000, flush=True)
    os.kill(os.getppid(), 15)
    raise SystemExit

data = Path(sys.argv[1])
server.serve(Settings(data_dir=data, port=0, backend=sys.argv[2]), factory)
"""

FORKS = """
import json, os, socket, subprocess, sys, threading
from sless.children import fork_child

listening = socket.create_server(("127.0.0.1", 0))

def main():
    given = os.read(0, 100)
    opened = [fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{fd}")]
    answer = {"given": given.decode(), "opened": sorted(opened), "own_group": os.getpgid(0) == os.getpid()}
    os.write(1, json.dumps(answer).encode())
    assert not os.read(0, 100), "stdin does not end"
    print("said", file=sys.stderr)
    raise SystemExit(3)

theirs, ours = os.pipe()
child = fork_child(main, theirs)
os.close(theirs)
os.write(ours, b"order")
print(child.stdout.read(1000).decode())
try:
    child.wait(0.001)
except subprocess.TimeoutExpired:
    print("runs")
os.close(ours)
print(child.wait(20), child.stdout.read())
killed = fork_child(main, 0)
killed.kill()
print(killed.wait(), killed.wait(1))
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(fork_child(main, 0))
os._exit(listening.close() or sys.stdout.flush() or 0)
"""


def run(code: str, *args: str) -> str:
    return subprocess.run([sys.executable, "-c", code, *args], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=False).stdout


@pytest.mark.parametrize(("packages", "urgent"), [(False, False), (False, True), (True, False), (True, True)])
def test_work_in_a_child(packages: bool, urgent: bool):
    done = run_child("tests.unit.reporting_child", b"order", 60, packages=packages, urgent=urgent)
    assert done.returncode == 0, done.stderr
    niceness = min(os.nice(0) + (0 if urgent else 10), 19)
    assert json.loads(done.stdout) == {"given": "order", "nice": niceness, "packages": packages}


def test_a_child_imports_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    for packages in (False, True):
        assert run_child("tests.unit.reporting_child", b"", 60, packages=packages).returncode == 0


def test_a_child_that_takes_too_long_is_killed():
    with pytest.raises(subprocess.TimeoutExpired):
        run_child("tests.unit.reporting_child", b"", 0.001)


def test_a_child_of_the_same_user_cannot_read_environment_or_memory():
    assert run(AS_USER).split() == ["0", "1", "opened"]


def test_only_a_local_server_is_undumpable(tmp_path):
    assert "dumpable 0" in run(SERVES, str(tmp_path), "local")
    assert "dumpable 1" in run(SERVES, str(tmp_path), "kubernetes")


def test_the_collector_of_a_worker_skips_what_the_master_imported(tmp_path):
    assert "frozen True" in run(SERVES, str(tmp_path), "local")


@pytest.mark.parametrize("code", [0, 3])
def test_leaving_writes_output_and_waits_for_no_thread(code):
    script = (
        "import logging, threading, time\nfrom sless.ending import leave\nlogging.basicConfig()\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\nprint('all of it', end='')\nlogging.warning('said')\n"
        f"leave({code})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (code, "all of it", "WARNING:root:said\n")


def test_a_forked_child_has_pipes_and_nothing_else_of_its_parent():
    done = subprocess.run([sys.executable, "-c", FORKS], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    answer, *rest = done.stdout.splitlines()
    assert json.loads(answer) == {"given": "order", "opened": [0, 1, 2], "own_group": True}
    assert rest == ["runs", "3 b''", "-9 -9", "None"], "a process with threads does not fork"
    assert done.stderr == "said\n"
