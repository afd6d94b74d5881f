"""After kill -9 of a server its children end without a new server's help, even if they do not watch the lifeline."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sless.host.rundir import start_ticks_of
from tests.contract.backend_harness import wait_until

ROOT = Path(__file__).resolve().parents[3]
SERVER = """
import json, os, signal, sys
from pathlib import Path
from sless.host.process import Launch, Processes
from sless.host.rundir import RunDir
run_dir = RunDir(Path(sys.argv[1]), Path(sys.argv[1]))
processes = Processes(run_dir)
def start(*argv):
    home = run_dir.make_home(str(len(os.listdir(run_dir.path / "homes"))))
    env = {"PATH": os.defpath, "HOME": str(home.home)}
    return processes.start(Launch(argv=argv, cwd=home.home, env=env, on_lines=lambda *_: None, on_exit=lambda _: None)).pid
plain, stopped = start("sleep", "300"), start("sleep", "301")
os.kill(stopped, signal.SIGSTOP)
detached = start("sh", "-c", "setsid sleep 302 & echo $! > pid; wait")
pid_file = next((run_dir.path / "homes").glob("2/home")) / "pid"
while not (pid_file.exists() and pid_file.read_text().strip()):
    pass
print(json.dumps([plain, stopped, detached, int(pid_file.read_text())]), flush=True)
sys.stdin.read()
{end}
"""


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Return a folder short enough for socket paths."""
    folder = Path(tempfile.mkdtemp(prefix="slg-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def children_of(server: "subprocess.Popen[str]") -> dict[int, int | None]:
    assert server.stdout is not None
    return {pid: start_ticks_of(pid) for pid in json.loads(server.stdout.readline())}


def start_server(folder: Path, end: str = "") -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SERVER.replace("{end}", end), str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def runs(pid: int, ticks: int | None) -> bool:
    try:
        return start_ticks_of(pid) == ticks and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_children_of_a_killed_server_end(short_folder):
    server = start_server(short_folder)
    try:
        children = children_of(server)
        assert all(runs(*child) for child in children.items())
    finally:
        server.kill()
        server.communicate()
    wait_until(lambda: not any(runs(*child) for child in children.items()), "all ended", 15)


def test_a_server_that_stops_leaves_no_guard(short_folder):
    server = start_server(short_folder, "processes.close(); run_dir.close()")
    children_of(server)
    guards = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in guards]
    (guard,) = [int(pid) for pid, command in zip(guards, commands, strict=True) if "sless.host.guard" in command]
    server.communicate("")
    assert server.returncode == 0 and start_ticks_of(guard) is None
