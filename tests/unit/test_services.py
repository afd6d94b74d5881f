"""Services that tests start live as long as the test run."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.services import start_following
from tests.services.product import wait_until


def test_a_server_outlives_the_thread_that_started_it():
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        started.append(start_following(["sleep", "60"], "KILL"))
        comm = Path(f"/proc/{started[0].pid}/comm")
        wait_until(lambda: comm.read_text() == "sleep\n", "the program runs")

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    [process] = started
    try:
        time.sleep(0.2)  # the kernel would have sent its signal by now
        assert process.poll() is None
    finally:
        process.kill()
        assert process.wait() == -signal.SIGKILL


@pytest.mark.xdist_group("alone")
def test_a_group_of_tests_stays_on_one_worker(request: pytest.FixtureRequest):
    """A version of xdist or pytest that ignores the group mark would spread tests that share a server, a broker or state."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert request.node.nodeid.endswith("@alone")
