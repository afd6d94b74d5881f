"""Without a sandbox, children of a root server run as a user who cannot read its secrets."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sless.host import unprivileged
from sless.host.process import Launch, Processes
from sless.host.rundir import RunDir
from sless.host.sandbox import Access
from sless.host.unprivileged import USER, Unprivileged, hand_over, unprivileged_of
from tests.services import unavailable

UID = GID = 65534


class Server:
    """The folders of a server as it creates them, below one that others may traverse."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o711)
        self.data = folder / "data"
        self.code = self.data / "versions" / "abc" / "function"
        for made in (self.data, self.data / "versions", self.code.parent, self.data / "runs"):
            made.mkdir(mode=0o700)
        self.code.mkdir(mode=0o755)
        (self.code / "handler.py").write_text("code")
        for name in ("jwt-secret", "runs/others"):
            (self.data / name).write_text("hidden")
            (self.data / name).chmod(0o600)
        self.run_dir = RunDir(folder / "run", self.data)
        self.processes = Processes(self.run_dir, None, Unprivileged(UID, GID, (self.data, self.run_dir.base)))
        self.lines: list[str] = []

    def run(self, script: str, **access: tuple[Path, ...]) -> list[str]:
        home = self.run_dir.make_home("mine")
        ended = threading.Event()
        launch = Launch(
            argv=("/bin/sh", "-c", script), cwd=self.code, env={"PATH": "/usr/bin:/bin", "HOME": str(home.home)},
            on_lines=lambda stream, lines: self.lines.extend(f"{stream}: {line.decode()}" for line in lines),
            on_exit=lambda code: ended.set(), access=Access(reads=(self.code,), writes=(home.root,), tmp=home.tmp, **access),
        )  # fmt: skip
        self.processes.start(launch)
        assert ended.wait(20)
        return self.lines


@pytest.fixture
def server() -> Iterator[Server]:
    if os.geteuid() != 0:
        unavailable("another user for functions", "a test that runs as root")
    folder = Path(tempfile.mkdtemp(prefix="slu-", dir="/tmp"))
    made = Server(folder)
    yield made
    made.processes.close()
    made.run_dir.close()
    shutil.rmtree(folder)


def test_a_child_reads_its_code_and_no_secret(server: Server) -> None:
    data = server.data
    lines = server.run(
        f"id -u; id -G; cat handler.py; echo; ls {data}; cat {data}/jwt-secret {data}/runs/others; cat /proc/{os.getpid()}/environ"
    )
    assert [line for line in lines if line.startswith("stdout")] == ["stdout: 65534", "stdout: 65534", "stdout: code"]
    assert sum("Permission denied" in line for line in lines) == 4, lines


def test_a_child_writes_only_to_its_own_folders(server: Server) -> None:
    lines = server.run(f'echo 1 > "$HOME/a" && cat "$HOME/a"; echo 2 > new.py; echo 3 > {server.data}/x', compiles=(server.code,))
    assert [line for line in lines if line.startswith("stdout")] == ["stdout: 1"] and len(lines) == 3, lines


def test_the_server_owns_what_a_build_made(server: Server) -> None:
    made = server.run_dir.make_home("build").root
    (made / "home" / "link").symlink_to(server.data / "jwt-secret")
    hand_over(made, UID, GID)
    assert {path.lstat().st_uid for path in (made, *made.rglob("*"))} == {UID}
    assert (server.data / "jwt-secret").stat().st_uid == 0
    hand_over(made, 0, 0)
    assert {path.lstat().st_uid for path in (made, *made.rglob("*"))} == {0}


def test_a_server_that_is_not_root_keeps_its_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert unprivileged_of(tmp_path) is None


def test_a_root_server_warns_if_its_folder_cannot_be_reached(server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o700)
    hidden = tmp_path / "data"
    hidden.mkdir()
    unprivileged._obstacle_of.cache_clear()
    assert unprivileged_of(hidden) is None
    assert f"functions and builds run as root and can read every secret of this server: as user {USER}: PermissionError" in caplog.text or (
        f"user {USER} cannot start" in caplog.text
    )
