"""Each benchmark group starts, measures for a moment and prints its rows; a bench that is killed leaves nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.bench.__main__ import GROUPS, main
from tests.services import unavailable
from tests.services.product import ROOT, wait_until

COMMANDS = frozenset({"starts", "cluster"})
"""Groups that run in a separate process, as with `make bench`; the others run in this one, which has imported most of what they need."""
pytestmark = [pytest.mark.xdist_group("bench"), pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_measures(group: str) -> None:
    for program, package in (("wrk", "wrk"), ("nginx", "nginx-light")):
        if shutil.which(program) is None:
            unavailable(program, package)
    if group in COMMANDS:
        command = [sys.executable, "-m", "tests.bench", group, "--moment"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=880)
        code, printed, errors = done.returncode, done.stdout, done.stderr
    else:
        result = CliRunner().invoke(main, [group, "--moment"], catch_exceptions=False)
        code, printed, errors = result.exit_code, result.stdout, result.stderr
    assert code == 0, errors
    assert re.search(r"\| measured +\|", printed) and "not measured" not in printed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_bench_ends_its_server(tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "BENCH_TMP": str(tmp_path)}
    bench = subprocess.Popen([sys.executable, "-m", "tests.bench", "waits"], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    servers: list[int] = []
    try:
        wait_until(lambda: bool(servers.extend(filter(_is_server, _pids(PARENT, bench.pid))) or servers), "the server has started", 60)
        assert list(tmp_path.iterdir())
        bench.send_signal(number)
        assert bench.wait(60) == (128 + number if number == signal.SIGTERM else -number)
        assert number == signal.SIGKILL or not list(tmp_path.iterdir())
        wait_until(lambda: not _pids(GROUP, servers[0]), "the server and its processes have ended", 60)
    finally:
        bench.kill()
        bench.wait()
        if servers and _pids(GROUP, servers[0]):
            os.killpg(servers[0], signal.SIGKILL)


PARENT, GROUP = 1, 2
"""Fields of /proc/PID/stat after the name."""


def _pids(field: int, value: int) -> list[int]:
    """Processes that have not ended, by a field."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[field]) == value and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def _is_server(pid: int) -> bool:
    try:
        return b"\0serve\0" in (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False
