"""Starts servers without the cost of their imports, half of a start: each is forked from a process that has imported them already.

`fork_server` starts that process once per test run and returns a `ForkedServer`, with the methods of `subprocess.Popen` that tests use.
A fork writes its data folder into its command line, so that `Place.processes` finds it: `/proc` shows the environment of the process that
forks, not that of the fork.
"""

import atexit
import contextlib
import ctypes
import functools
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from tests.waiting import pauses

ROOT = Path(__file__).resolve().parents[2]
MARK_BYTES = 500
"""Room for the data folder in the command line."""
IMPORTED = (
    "sless.app", "sless.server", "sless.http", "sless.cli.server_commands", "sless.cli.console_link", "tests.services.serving",
    "tests.proxykit.served", "sless.tokens.signatures", "cryptography.fernet", "jsonschema", "uvloop",
)  # fmt: skip
"""What a server imports at its start and for its first requests."""


class ForkedServer:
    """A server process whose parent writes its exit code to a file."""

    def __init__(self, pid: int, code_file: Path) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._code_file = code_file

    def poll(self) -> int | None:
        if self.returncode is None:
            with contextlib.suppress(FileNotFoundError):
                self.returncode = int(self._code_file.read_text())
                self._code_file.unlink()
        return self.returncode

    def wait(self, timeout: float) -> int:
        deadline, pause = time.monotonic() + timeout, pauses()
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"server {self.pid}", timeout)
            time.sleep(next(pause))
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_server(arguments: list[str], environ: Mapping[str, str], mark: str, log_file: Path, module: str = "sless") -> ForkedServer:
    """Runs the command line with these arguments, or `main` of another module. Output goes to the end of the file."""
    request = {
        "module": module, "arguments": arguments, "environ": dict(environ), "mark": mark, "log": str(log_file),
        "code": str(log_file.with_suffix(".code")),
    }  # fmt: skip
    channel = _forker()
    channel.sendall(json.dumps(request).encode() + b"\n")
    answer = channel.recv(100)
    assert answer, "the process that forks servers has ended"
    return ForkedServer(int(answer), Path(request["code"]))


@functools.cache
def _forker() -> socket.socket:
    """A connection to a new process; it ends with the connection."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.services.forking", str(theirs.fileno()), "-" * MARK_BYTES], cwd=ROOT, stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONUNBUFFERED": "1"}, pass_fds=[theirs.fileno()],
        )  # fmt: skip

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait(20)

    return ours


# --- the process that forks ---


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    for name in IMPORTED:
        importlib.import_module(name)
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process ends with the connection
    selector = selectors.DefaultSelector()
    for sock in (channel, woken):
        selector.register(sock, selectors.EVENT_READ)
    code_files: dict[int, Path] = {}
    pending = b""
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        if woken in ready:
            woken.recv(100)
            reap(code_files)
        if channel in ready:
            data = channel.recv(2**20)
            if not data:
                return
            pending += data
            while b"\n" in pending:
                line, _, pending = pending.partition(b"\n")
                request = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    for other in (selector, channel, woken, wake):
                        other.close()
                    become_server(request)
                code_files[pid] = Path(request["code"])
                channel.sendall(str(pid).encode())


def reap(code_files: dict[int, Path]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            written = code_files[pid].with_suffix(".new")
            written.write_text(str(os.waitstatus_to_exitcode(status)))
            written.rename(code_files.pop(pid))


def become_server(request: dict[str, Any]) -> NoReturn:
    """Runs the requested server in this fork."""
    from sless.cli import main as command
    from sless.ending import leave

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.environ.clear()
        os.environ.update(request["environ"])
        write_mark(request["mark"])
        module, arguments = request["module"], request["arguments"]
        sys.argv = [module, *arguments]
        code = command(arguments) if module == "sless" else importlib.import_module(module).main(*arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    leave(code)


def write_mark(mark: str) -> None:
    """Overwrites the last argument of this process's command line."""
    text = mark.encode()
    assert len(text) < MARK_BYTES
    argument_end = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[46])
    ctypes.memmove(argument_end - 1 - MARK_BYTES, text.ljust(MARK_BYTES, b"\0"), MARK_BYTES)


if __name__ == "__main__":
    main()
