"""RabbitMQ from Debian's package, in a temporary folder, with its own ports, node name, cookie and port mapper.

A server can be stopped, killed and restarted with the same port and data. Users and their permissions are in `definitions`.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.services import free_ports, start_following, unavailable, unprivileged_user

START_TIMEOUT_SEC = 120
STOP_TIMEOUT_SEC = 30
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
PASSWORD = "opensesame"
USERS = {
    # name → permissions to configure, write, read
    "sless": (".*", ".*", ".*"),
    "reader": ("^$", "^$", ".*"),
    "nobody": ("^$", "^$", "^$"),
}


class RabbitServer:
    """One broker. The user `sless` has all permissions, `reader` may only read, `nobody` has none; all have PASSWORD."""

    def __init__(self) -> None:
        self.binary = find_server()
        self.folder = Path(tempfile.mkdtemp(prefix="sless-mq-", dir="/tmp"))
        self.port, self._dist_port, self._mapper_port = free_ports(3)
        self._node = f"sless-{secrets.token_hex(4)}@localhost"
        self.process: subprocess.Popen[bytes] | None = None
        self._mapper: subprocess.Popen[bytes] | None = None

    def url(self, user: str = "sless", password: str = PASSWORD, vhost: str = "%2F") -> str:
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/{vhost}"

    def start(self) -> None:
        """Returns once it speaks AMQP. A restart keeps the data."""
        self._prepare()
        if self._mapper is None:
            self._mapper = self._spawn(["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"], "epmd.log")
        self.process = self._spawn([str(self.binary)], "server.log")
        self._await()

    def stop(self) -> None:
        """Shuts it down cleanly: it closes its clients' connections."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Ends everything and removes the data."""
        self._end(signal.SIGKILL)
        if self._mapper is not None:
            end_group(self._mapper, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            end_group(self.process, how)
            self.process = None

    def _prepare(self) -> None:
        cookie = self.folder / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(secrets.token_hex(10))
            cookie.chmod(0o400)
            (self.folder / "definitions.json").write_text(json.dumps(definitions()))
            (self.folder / "rabbitmq.conf").write_text(self._settings())
            (self.folder / "enabled_plugins").write_text("[].")
            for path in (self.folder, *self.folder.iterdir()):
                if user := unprivileged_user("rabbitmq"):
                    os.chown(path, user.pw_uid, user.pw_gid)

    def _settings(self) -> str:
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "distribution.listener.interface": "127.0.0.1",
            "load_definitions": self.folder / "definitions.json",
            "log.console": "true",
            "log.console.level": "warning",
            "disk_free_limit.absolute": "10MB",
        }
        return "".join(f"{name} = {value}\n" for name, value in settings.items())

    def _spawn(self, command: list[str], log: str) -> "subprocess.Popen[bytes]":
        user = unprivileged_user("rabbitmq")
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        with (self.folder / log).open("ab") as output:
            return start_following(
                command, "KILL", stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder, env=self._environment(),
                process_group=0, **as_user,
            )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            # Otherwise a shell stays between us and the server, and killing the shell leaves the server.
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            # Schedulers that busy-wait would take processor time from the tests.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
        }

    def _await(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT_SEC
        while not speaks_amqp(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"RabbitMQ did not start:\n{self.log()}")
            time.sleep(0.05)


def find_server() -> Path:
    if not SERVER.exists():
        unavailable("RabbitMQ's server", "rabbitmq-server")
    return SERVER


def definitions() -> dict[str, object]:
    return {
        "vhosts": [{"name": "/"}],
        "users": [{"name": name, "password": PASSWORD, "tags": ""} for name in USERS],
        "permissions": [
            {"user": name, "vhost": "/", "configure": configure, "write": write, "read": read}
            for name, (configure, write, read) in USERS.items()
        ],
    }


def speaks_amqp(port: int) -> bool:
    """A ready broker responds to the AMQP protocol header with Connection.Start, a method frame on channel 0."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.settimeout(2)
            connection.sendall(b"AMQP\0\0\x09\x01")
            return connection.recv(3) == b"\x01\0\0"
    except OSError:
        return False


def end_group(process: "subprocess.Popen[bytes]", how: signal.Signals) -> None:
    """Signals the process and its group."""
    try:
        os.killpg(process.pid, how)
    except ProcessLookupError:
        pass
    try:
        process.wait(STOP_TIMEOUT_SEC)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
