"""The real command line against the real server, each a process of its own."""

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.services.product import START_SEC, Place, answers, free_port, new_place, wait_until

__all__ = ["Place", "answers", "free_port", "wait_until"]


def ok(ended: "subprocess.CompletedProcess[str]") -> str:
    """What a command that has to succeed printed."""
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with new_place(tmp_path) as made:
        yield made


@dataclass
class RunningServer:
    place: Place
    url: str
    token: str

    def sless(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self.place.run(*arguments, SLESS_URL=self.url, SLESS_TOKEN=self.token)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """`sless serve` on a free port, with a token for the tenant `e2e`; brokers and callbacks of this machine are allowed."""
    with new_place(tmp_path_factory.mktemp("server")) as place:
        port = free_port()
        log_file = place.run_dir.with_suffix(".log")
        with open(log_file, "w") as log:
            place.environ["SLESS_OUTBOUND_ALLOW"] = "127.0.0.0/8"
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
