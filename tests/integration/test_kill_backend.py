"""After kill -9 of a server, all its processes end, and the next server knows the state of its runs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sless.domain.model import CallStatus
from tests.contract.backend_harness import LocalHarness, wait_until

ROOT = Path(__file__).resolve().parents[2]
SERVER = """
import json, sys
from pathlib import Path
from tests.contract.backend_harness import LocalHarness, wait_until
from sless.domain.model import Kind
harness = LocalHarness(Path(sys.argv[1]))
source = "import os, subprocess, sys, time\\nchildren = [subprocess.Popen(['sleep', '300']).pid{detached}]\\n"
hello = harness.python(source.format(detached=", subprocess.Popen(['sleep', '300'], start_new_session=True).pid")
    + "def handle(event):\\n    return [os.getpid(), *children]\\n")
(endpoint,) = harness.deploy(hello)
pids = harness.call(endpoint)
job = harness.python(source.format(detached="") + "def handle(event):\\n    print(os.getpid())\\n    time.sleep(300)\\n", kind=Kind.JOB)
run_id, _, _ = harness.start_run(job, 7)
line = wait_until(lambda: harness.lines and harness.lines[0], "the job runs")
ended = harness.run(harness.python("def handle(event):\\n    return event\\n", kind=Kind.JOB), 8)
print(json.dumps({"pids": [*pids, int(line.text)], "run": run_id, "ended": ended.id}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def killed(tmp_path_factory) -> Iterator[tuple[LocalHarness, dict[str, Any]]]:
    """Yield a harness of the next server and the report of the killed one."""
    harness = LocalHarness()
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(harness.root)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        report = json.loads(server.stdout.readline())
        assert all(map(_runs, report["pids"]))
        server.kill()
        server.communicate()
        yield harness, report
    finally:
        server.kill()
        server.communicate()
        harness.close()


def test_nothing_survives_and_runs_are_accounted_for(killed):
    harness, report = killed
    instance, child, detached, job = report["pids"]
    wait_until(lambda: not any(map(_runs, (instance, child, job))), "the lifeline ends each group, without a next server")
    harness.restart()
    wait_until(lambda: not _runs(detached), "the next server ends processes that left their group")
    assert [entry.name for entry in harness.settings.run_dir.iterdir()] == [harness.backend._starter.run_dir.owner]
    runs = harness.backend.observe_runs()
    assert report["run"] not in runs, "the reconciler restarts interrupted runs, which it recognises by their absence"
    assert [line.text for line in harness.lines if line.invocation_id == report["run"]] == [str(job)]
    ended = runs[report["ended"]]
    assert (ended.status, ended.outcome.result) == (CallStatus.SUCCEEDED, "8")


WAITS = """
import os, time

def handle(event):
    print("started")
    while not os.path.exists(event):
        time.sleep(0.02)
"""


def test_runs_of_another_running_server_continue(tmp_path):
    gate = tmp_path / "gate"
    first = LocalHarness()
    second = LocalHarness(first.root)
    try:
        run_id, ended, results = first.start_run(first.python(WAITS), str(gate))
        wait_until(lambda: first.lines, "it runs")
        assert second.backend.observe_runs()[run_id].status is CallStatus.RUNNING
        gate.touch()
        assert ended.wait(60) and results[0].status is CallStatus.SUCCEEDED
        assert second.backend.observe_runs()[run_id].status is CallStatus.SUCCEEDED
    finally:
        second.backend.close()
        first.close()


def test_a_run_leaves_no_secrets_on_disk():
    harness = LocalHarness()
    try:
        harness.run(harness.python("def handle(event):\n    return 1\n", env={"PASSWORD": "sesame-open"}))
        files = [path for path in harness.settings.data_dir.rglob("*") if path.is_file()]
        assert any(path.name == "spec.json" for path in files)
        assert not any(b"sesame-open" in path.read_bytes() for path in files)
    finally:
        harness.close()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
