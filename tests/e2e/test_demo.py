"""`sless demo`: deploys and calls functions, and cleans up after itself."""

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import Place, answers, free_port, wait_until

pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.timeout(180), pytest.mark.slow]

STAYS_UP = "The server is running."


@contextmanager
def staying_demo(place: Place, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A demo that has finished its tour but keeps running, and its output so far."""
    process = place.popen("demo", "--port", str(free_port()), *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    shown = []
    try:
        for line in process.stdout:
            shown.append(line)
            if line.startswith(STAYS_UP):
                break
        else:
            pytest.fail("the demo ended:\n" + "".join(shown))
        yield process, "".join(shown)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        process.stdout.close()


def pasted(text: str) -> list[str]:
    """The lines below `Try:`, which must each work by themselves, then the terminal lines as one block."""
    lines, _, together = text.partition("\nTry:\n")[2].partition("\nOr with the command line")
    commands = [line.strip() for line in together.splitlines() if line.startswith("  ") and not line.endswith(" -f")]
    return [*(line.strip() for line in lines.splitlines() if line.startswith("  ")), "\n".join(commands)]


def test_the_tour_works_twice_on_the_same_folder_and_picks_a_free_port(place, node_binary):
    first = place.run("demo", "--exit", "--port", str(free_port()))
    assert first.returncode == 0, first.stdout + first.stderr
    assert '"message": "Hello, Ada!"' in first.stdout
    assert '"Hello, Grace!"' in first.stdout
    assert first.stdout.count("Version 1 is Ready") == 2
    assert "Traceback" not in first.stdout + first.stderr
    assert place.processes() == []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        again = place.run("demo", "--exit", "--port", str(port), SLESS_EXTERNAL_URL="https://functions.example.com")
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("Version 1 is Ready") == 2, "the same code makes no new version"
    assert f"Port {port} is in use, using " in again.stdout


def test_each_line_to_try_works_when_pasted_and_ctrl_c_stops_the_demo(place):
    with staying_demo(place) as (process, text):
        lines = pasted(text)
        assert len(lines) >= 3
        results = [subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60) for line in lines]
        assert [result.returncode for result in results] == [0] * len(lines)
        assert json.loads(results[0].stdout)["message"] == "Hello, Ada!"
        assert "hello-python" in results[-1].stdout, results[-1]
        functions = next(result.stdout for line, result in zip(lines, results, strict=True) if line.endswith("/functions"))
        assert "hello-python" in [item["name"] for item in json.loads(functions)]
        logs = next(result.stdout for line, result in zip(lines, results, strict=True) if line.endswith("/logs"))
        assert "greeting Ada" in logs
        assert_stops(process, place, signal.SIGINT)


def assert_stops(process: "subprocess.Popen[str]", place: Place, stop_signal: int) -> None:
    assert len(place.processes()) >= 3, "demo, server and at least one instance"
    process.send_signal(stop_signal)
    rest = process.stdout.read()
    assert process.wait(60) == 0
    assert "Traceback" not in rest
    assert place.processes() == []


def test_a_closed_terminal_stops_the_demo(place):
    with staying_demo(place) as (process, _):
        assert_stops(process, place, signal.SIGHUP)


def test_kill_9_of_the_demo_stops_the_server(place):
    with staying_demo(place) as (process, _):
        process.kill()
        process.wait(60)
        wait_until(lambda: place.processes() == [], "all processes have ended", 60)


def test_the_demo_reports_that_the_server_exited(place):
    with staying_demo(place) as (process, text):
        port = re.search(r"http://127\.0\.0\.1:(\d+)", text)[1]
        child = next(pid for pid in place.processes() if _parent_of(pid) == process.pid)
        os.kill(child, signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(60) == 1
        assert "the server exited unexpectedly" in rest
        assert not answers(f"http://127.0.0.1:{port}/healthz")


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_a_second_demo_reports_the_data_folder_in_use_and_sigterm_stops_the_first(place):
    with staying_demo(place) as (process, _):
        second = place.run("demo", "--exit", "--port", str(free_port()))
        assert second.returncode == 1
        assert "is in use by another sless server" in second.stderr
        assert process.poll() is None
        assert_stops(process, place, signal.SIGTERM)
