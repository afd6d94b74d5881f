"""The systemd unit in README.md: systemd accepts it, and the server that it starts stops in time."""

import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sless.config import Settings
from sless.ids import namespace_of
from tests.services import unavailable
from tests.services.product import ROOT, START_SEC, Place, Tenant, answers, free_port, new_place, wait_until
from tests.services.zipapp import bare_python, built_zipapp

pytestmark = [pytest.mark.xdist_group("readme"), pytest.mark.timeout(240)]

STATE, RUN = "/var/lib/sless", "/run/sless"
SYSTEMDS_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
HANDLER = """
import os

def handle(event, context):
    return [context.http.client_ip, context.http.headers["x-forwarded-proto"], os.getuid()]
"""


def unit_text() -> str:
    found = re.search(r"^```ini\n(\[Unit\]\n.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def values_of(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit_text(), re.MULTILINE)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze") or unavailable("systemd-analyze", "systemd")
    python = shlex.split(values_of("ExecStart")[0])[0]
    unit = tmp_path / "sless.service"
    unit.write_text(unit_text().replace(python, bare_python()))  # systemd checks that it exists
    done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])


def test_the_unit_leaves_the_server_time_to_stop() -> None:
    assert int(values_of("TimeoutStopSec")[0]) >= Settings(data_dir=Path()).graceful_timeout_sec + 10


class Service:
    """Starts and stops a server as systemd would, with other folders and another port. The user is `nobody` if we are root."""

    def __init__(self, place: Place, program: Path) -> None:
        self.place = place
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        command = shlex.split(values_of("ExecStart")[0])
        python = command[0] if os.access(command[0], os.X_OK) else bare_python()
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 and python == command[0] else pwd.getpwuid(os.geteuid())
        self.uid = user.pw_uid
        self.command = [python, str(program), *command[2:]]
        self.environ = {"PATH": SYSTEMDS_PATH, "USER": user.pw_name, "LOGNAME": user.pw_name, "SLESS_PORT": str(self.port)}
        folders = {STATE: place.data_dir, RUN: place.run_dir}
        for pair in (pair for line in values_of("Environment") for pair in shlex.split(line)):
            name, _, value = pair.partition("=")
            self.environ[name] = str(folders.get(value, value))
        for folder in folders.values():  # StateDirectory=, RuntimeDirectory=
            folder.mkdir(exist_ok=True)
            os.chown(folder, user.pw_uid, user.pw_gid)
            folder.chmod(0o755)
        self.options: dict[str, Any] = {"env": self.environ, "cwd": "/", "stdin": subprocess.DEVNULL, "umask": 0o022}
        if self.uid != os.geteuid():
            self.options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def run(self, *arguments: str) -> str:
        done = subprocess.run([*self.command[:2], *arguments], capture_output=True, text=True, check=False, **self.options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start(self) -> None:
        with (self.place.data_dir.parent / "log").open("wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, **self.options)
        wait_until(lambda: answers(f"http://127.0.0.1:{self.port}/readyz"), "ready", START_SEC)

    def stop(self) -> int:
        """KillMode=mixed: SIGTERM to the main process only."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(int(values_of("TimeoutStopSec")[0]))


@pytest.fixture
def service() -> Iterator[Service]:
    folder = Path(tempfile.mkdtemp(prefix="sless-unit-", dir="/tmp"))
    folder.chmod(0o755)
    program = folder / "sless.pyz"
    shutil.copy(built_zipapp(), program)
    try:
        with new_place(folder) as place:
            yield Service(place, program)
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_server_started_by_the_unit_serves_and_stops(service: Service) -> None:
    assert [values_of(name) for name in ("StateDirectory", "RuntimeDirectory", "User", "KillMode", "Restart")] == [
        ["sless"], ["sless"], ["sless"], ["mixed"], ["on-failure"],
    ]  # fmt: skip
    for _ in range(2):  # a restart keeps the data
        service.start()
        token = service.run("token", "--sub", "me")
        tenant = Tenant(cast(Any, SimpleNamespace(url=f"http://127.0.0.1:{service.port}")), token, namespace_of("me"))
        path = f"/fn/{tenant.namespace}/f"
        if tenant.get("functions").json() == []:
            tenant.deploy("f", HANDLER)
        called = tenant.post(path, headers={"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"})
        assert called.json() == ["192.0.2.7", "https", service.uid], "it trusts the proxy on this machine"
        assert tenant.get("functions/f").json()["url"] == f"https://functions.example.com{path}"
        assert service.stop() == 0, "else Restart=on-failure would start it again"
        wait_until(lambda: not service.place.processes(), "nothing is left")
