"""PostgreSQL from Debian's binaries, in a temporary folder, on a unix socket: no port, separate from the machine's clusters."""

import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

from tests.services import start_following, unavailable, unprivileged_user

START_TIMEOUT_SEC = 30
STOP_TIMEOUT_SEC = 20
# Not UTC, and a linguistic collation, so that code that relies on the server's time zone or collation fails here.
SETTINGS = {
    "listen_addresses": "",
    "timezone": "Pacific/Chatham",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "100",
}


class PostgresServer:
    """One server; tests create their own databases."""

    def __init__(self) -> None:
        self.binaries = find_binaries() or unavailable("PostgreSQL's server", "postgresql")
        # Short and below /tmp: a socket's path is limited to about 100 bytes, and the server's user needs access.
        self.folder = Path(tempfile.mkdtemp(prefix="sless-pg-", dir="/tmp"))
        self.process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)

    def start(self) -> None:
        user = unprivileged_user("postgres")
        if user:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        log = self.folder / "log"
        with log.open("wb") as output:
            options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, "env": environment, "cwd": self.folder, **as_user}
            made = subprocess.run(self._initdb(), check=False, **options)
            if made.returncode:
                raise RuntimeError(f"initdb failed: {log.read_text()}")
            self.process = start_following(self._command(), "INT", **options)
        self._await(log)

    def create_database(self) -> str:
        """Returns the URL of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url_of(name)

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # PostgreSQL's "fast" shutdown: does not wait for clients
            try:
                self.process.wait(STOP_TIMEOUT_SEC)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder)

    def _initdb(self) -> list[str]:
        command = [
            str(self.binaries / "initdb"),
            "-D",
            str(self.folder / "data"),
            "-U",
            "postgres",
            "--auth=trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]
        if major_version(self.binaries) >= 15:
            command += ["--locale-provider=icu", "--icu-locale=en-US"]
        return command

    def _command(self) -> list[str]:
        command = [str(self.binaries / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        for name, value in SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _await(self, log: Path) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT_SEC
        while True:
            try:
                psycopg.connect(self.url_of("postgres")).close()
                return
            except psycopg.OperationalError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start: {error}\n{log.read_text()}") from error
                time.sleep(0.02)


def find_binaries() -> Path | None:
    """The folder of the newest installed server; Debian does not put its binaries on PATH. Returns None without a server."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(re.sub(r"\D", "", folder.parent.name) or 0))
    on_path = shutil.which("postgres")
    if on_path:
        folders.insert(0, Path(on_path).resolve().parent)
    for folder in reversed(folders):
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    return None


def major_version(binaries: Path) -> int:
    text = subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"\d+", text)
    assert found, text
    return int(found[0])
