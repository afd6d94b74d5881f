"""The demo's server, a child process: starts it, waits for it, and stops it with everything it started."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import sless
from sless.client import Unreachable
from sless.client.transport import Transport
from sless.config import Settings
from sless.errors import ConfigError

START_SEC = 60.0
STOP_SEC = 25.0
SHOWN_LOG_LINES = 15
LOG_NAME = "server.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoServer:
    """`log_start` is the offset of the server's first line in the log file."""

    process: "subprocess.Popen[bytes]"
    url: str
    log_file: Path
    log_start: int
    lifeline: int

    def wait_ready(self) -> None:
        """Raises ConfigError with the server's last lines if it ends or does not respond in time."""
        deadline = time.monotonic() + START_SEC
        transport = Transport(self.url, "", refused_pauses_sec=())
        while not _is_ready(transport):
            if self.process.poll() is not None:
                raise ConfigError(f"the server did not start (exit code {self.process.returncode}):\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise ConfigError(f"the server did not answer on {self.url} within {START_SEC:.0f} s:\n{self.last_lines()}")
            time.sleep(0.05)
        transport.close()

    def last_lines(self) -> str:
        with open(self.log_file, "rb") as file:
            file.seek(self.log_start)
            lines = file.read().decode(errors="replace").splitlines()[-SHOWN_LOG_LINES:]
        return "\n".join(f"  {line}" for line in lines) + f"\n  (from {self.log_file})"

    def stop(self) -> None:
        """Terminates the server, which stops its functions; then kills what is left of its process group."""
        try:
            self.process.terminate()
            self.process.wait(STOP_SEC)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            pass
        finally:
            _kill_group(self.process.pid)
            self.process.wait()
            os.close(self.lifeline)


def start_server(settings: Settings, port: int) -> DemoServer:
    """Starts a server with these settings on 127.0.0.1:`port`. It logs to a file in the data folder."""
    log_file = settings.data_dir / LOG_NAME
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        output = open(log_file, "ab")  # noqa: SIM115 - closed by the `with` below
    except OSError as error:
        raise ConfigError(f"SLESS_DATA_DIR: cannot use {settings.data_dir}: {error.strerror}") from error
    with output:
        log_start = output.tell()
        process, lifeline = _spawn(settings, port, output)
    url = f"http://127.0.0.1:{port}"
    return DemoServer(process=process, url=url, log_file=log_file, log_start=log_start, lifeline=lifeline)


def _spawn(settings: Settings, port: int, output: BinaryIO) -> "tuple[subprocess.Popen[bytes], int]":
    reading, writing = os.pipe()
    # -P: do not search the current folder for modules.
    command = [sys.executable, "-P", "-m", "sless.cli", "serve", "--host", "127.0.0.1", "--port", str(port)]
    # Override SLESS_EXTERNAL_URL, which may belong to another server: the URLs that the demo prints must lead to this one.
    command += ["--external-url", f"http://127.0.0.1:{port}", "--data-dir", str(settings.data_dir), "--lifeline-fd", str(reading)]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(),
            process_group=0,  # Ctrl-C reaches only the demo, which then stops the server
            pass_fds=(reading,),
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return process, writing


def _environment() -> dict[str, str]:
    """The current environment, with this sless on PYTHONPATH."""
    package_folder = str(Path(sless.__file__).resolve().parent.parent)
    paths = [package_folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"SLESS_GRACEFUL_TIMEOUT_SEC": "10"} | os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def choose_port(wanted: int) -> int:
    """`wanted` if it is free, or else one of the next nine, or else any."""
    for port in (*range(wanted, min(wanted + 10, 65536)), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ConfigError("no free port on 127.0.0.1")


def _is_ready(transport: Transport) -> bool:
    try:
        return transport.answer("GET", "/readyz", timeout=2).status == 200
    except Unreachable:
        return False


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
