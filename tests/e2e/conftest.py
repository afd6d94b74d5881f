"""The real command line against the real server, each a process of its own."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
START_SEC = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(check: Callable[[], bool], what: str, timeout_sec: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_sec
    while not check():
        assert time.monotonic() < deadline, f"not in {timeout_sec:.0f} s: {what}"
        time.sleep(0.05)


@dataclass
class Place:
    """A data folder and a folder for sockets of its own; `environ` for processes that are to use them."""

    data_dir: Path
    run_dir: Path
    environ: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.environ = os.environ | {"SLESS_DATA_DIR": str(self.data_dir), "SLESS_RUN_DIR": str(self.run_dir), "PYTHONUNBUFFERED": "1"}

    def popen(self, *arguments: str, **options) -> "subprocess.Popen[str]":
        command = [sys.executable, str(ROOT / "sless.py"), *arguments]
        return subprocess.Popen(command, env=self.environ, text=True, stdin=subprocess.DEVNULL, **options)

    def run(self, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(ROOT / "sless.py"), *arguments]
        return subprocess.run(command, env=self.environ | environ, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=100)

    def processes(self) -> list[int]:
        """Processes that have something to do with this place: their command line, environment or working folder names it."""
        marks = (str(self.data_dir).encode(), str(self.run_dir).encode())
        return [pid for pid in _pids() if any(mark in text for text in _texts_of(pid) for mark in marks)]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _texts_of(pid: int) -> Iterator[bytes]:
    for name in ("cmdline", "environ"):
        try:
            yield Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            continue
    try:
        yield os.readlink(f"/proc/{pid}/cwd").encode()
    except OSError:
        return


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with new_place(tmp_path) as made:
        yield made


class new_place:  # noqa: N801 - reads as a statement
    """A Place, and a check at the end that nothing runs there any more."""

    def __init__(self, folder: Path) -> None:
        # Paths of unix sockets are short: not below pytest's own folders.
        self._place = Place(folder / "data", Path(tempfile.mkdtemp(prefix="sl-", dir="/tmp")))

    def __enter__(self) -> Place:
        return self._place

    def __exit__(self, *_: object) -> None:
        left = self._place.processes()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self._place.run_dir, ignore_errors=True)
        assert not left, f"processes left behind: {left}"


@dataclass
class RunningServer:
    place: Place
    url: str
    token: str

    def sless(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.place.run(*arguments, SLESS_URL=self.url, SLESS_TOKEN=self.token)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """`sless serve` on a free port, with a token for the tenant `e2e`."""
    with new_place(tmp_path_factory.mktemp("server")) as place:
        port = free_port()
        log_file = place.run_dir.with_suffix(".log")
        with open(log_file, "w") as log:
            process = place.popen("serve", "--port", str(port), stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: process.poll() is not None or answers(f"{url}/readyz"), "ready", START_SEC)
            assert process.poll() is None, log_file.read_text()
            yield RunningServer(place, url, place.run("token", "--sub", "e2e").stdout.strip())
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(40)
            log_file.unlink()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False
