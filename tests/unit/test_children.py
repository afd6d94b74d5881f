"""What a local server's child processes can read of the server, and how processes end."""

import subprocess
import sys
from pathlib import Path

import pytest

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
import ctypes, os, sys
from pathlib import Path
from sless import server
from sless.config import Settings

def factory(settings):
    print("dumpable", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)
    os.kill(os.getppid(), 15)
    raise SystemExit

data = Path(sys.argv[1])
server.serve(Settings(data_dir=data, port=0, backend=sys.argv[2]), factory)
"""


def run(code: str, *args: str) -> str:
    return subprocess.run([sys.executable, "-c", code, *args], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=False).stdout


def test_a_child_of_the_same_user_cannot_read_environment_or_memory():
    assert run(AS_USER).split() == ["0", "1", "opened"]


def test_only_a_local_server_is_undumpable(tmp_path):
    assert "dumpable 0" in run(SERVES, str(tmp_path), "local")
    assert "dumpable 1" in run(SERVES, str(tmp_path), "kubernetes")


@pytest.mark.parametrize("code", [0, 3])
def test_leaving_writes_output_and_waits_for_no_thread(code):
    script = (
        "import logging, threading, time\nfrom sless.children import leave\nlogging.basicConfig()\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\nprint('all of it', end='')\nlogging.warning('said')\n"
        f"leave({code})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (code, "all of it", "WARNING:root:said\n")
