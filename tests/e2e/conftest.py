"""Fixtures: the real command line, and one real server process per session."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.services.command_line import run_command
from tests.services.product import START_SEC, Place, answers, free_port, new_place, wait_until

__all__ = ["Place", "answers", "free_port", "wait_until"]


def ok(ended: "subprocess.CompletedProcess[str]") -> str:
    """Stdout of a command that must succeed."""
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
    namespace: str

    def sless(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in this process; `place.run` starts a new one."""
        return run_command(arguments, self.place.environ | {"SLESS_URL": self.url, "SLESS_TOKEN": self.token})


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, str]]:
    """`sless serve` on a free port, with brokers and callbacks on this machine allowed."""
    with new_place(tmp_path_factory.mktemp("server")) as place:
        port = free_port()
        log_file = place.run_dir.with_suffix(".log")
        with open(log_file, "w") as log:
            place.environ |= {"SLESS_OUTBOUND_ALLOW": "127.0.0.0/8", "SLESS_OPERATOR_SUBS": "operator@example.com"}
            process = place.popen("serve", "--port", str(port), stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: process.poll() is not None or answers(f"{url}/readyz"), "ready", START_SEC)
            assert process.poll() is None, log_file.read_text()
            yield place, url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            log_file.unlink()


@contextmanager
def tenant_of(running_server: tuple[Place, str], sub: str) -> Iterator[RunningServer]:
    """The session's server with the token of a tenant, whose namespace is deleted at the end."""
    place, url = running_server
    token = run_command(("token", "--sub", sub), place.environ).stdout.strip()
    headers = {"Authorization": f"Bearer {token}"}
    namespace = requests.get(f"{url}/v1/whoami", headers=headers, timeout=30).json()["namespace"]
    yield RunningServer(place, url, token, namespace)
    requests.delete(f"{url}/v1/namespaces/{namespace}", params={"confirm": namespace}, headers=headers, timeout=30)


@pytest.fixture(scope="module")
def server(running_server: tuple[Place, str], request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """The session's server, with a token for a tenant that only this module uses."""
    with tenant_of(running_server, request.module.__name__) as found:
        yield found
