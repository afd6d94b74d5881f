"""Starts a runtime as sless would (unix socket, bare environment) and talks raw HTTP/1.1 to it.

Every runtime is listed in `COMMANDS`; handlers live in `handlers/<runtime>/<group>.<suffix>`, with functions of the same names in
each language.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sless.builder.failures import BuildFailed
from sless.domain.event import result_of
from tests.conformance.go_programs import GO, go_entrypoint_of, go_program, require_go
from tests.services import unavailable
from tests.waiting import pauses

HERE = Path(__file__).parent
RUNTIMES_DIR = HERE.parent.parent / "runtimes"
START_TIMEOUT_SEC = 60.0
ANSWER_TIMEOUT_SEC = 30.0


def _python_command() -> list[str] | None:
    return [os.path.realpath(sys.executable), "-E", "-s", "-S", str(RUNTIMES_DIR / "python3.11" / "runtime.py")]


def _node_command() -> list[str] | None:
    node = shutil.which("node")
    return [node, str(RUNTIMES_DIR / "nodejs20" / "runtime.mjs")] if node else None


COMMANDS: dict[str, Callable[[], list[str] | None]] = {"python3.11": _python_command, "nodejs20": _node_command}
RUNTIMES = (*COMMANDS, GO)


def require_runtime(runtime: str) -> None:
    """Skips on a laptop, or fails in CI, when this machine cannot run the runtime."""
    try:
        if runtime == GO:
            require_go()
        else:
            command_of(runtime, "")
    except LookupError as missing:
        unavailable(str(missing), "golang-go nodejs npm")


def command_of(runtime: str, entrypoint: str, code_dir: Path | None = None) -> list[str]:
    """The command line that runs a handler; for Go it is compiled first. Raises LookupError when this machine cannot run the runtime,
    BuildFailed when compiling fails."""
    if runtime == GO:
        return [str(go_program(code_dir or handlers_dir(GO), go_entrypoint_of(entrypoint)))]
    command = COMMANDS[runtime]()
    if command is None or not Path(command[-1]).exists():
        raise LookupError(f"runtime {runtime} cannot be started here")
    return command


def handlers_dir(runtime: str) -> Path:
    return HERE / "handlers" / runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer; `chunks` are the chunks of a chunked body, `complete` is false when it was cut off."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    chunks: list[bytes]
    complete: bool

    def header(self, name: str) -> str | None:
        """All values of a header joined with `, `; None when it is absent."""
        values = self.header_values(name)
        return ", ".join(values) if values else None

    def header_values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def json(self) -> Any:
        return json.loads(self.body)

    def text_body(self) -> str:
        return self.body.decode()

    @property
    def error_message(self) -> str | None:
        encoded = self.header("X-Sless-Error-Message")
        return None if encoded is None else unquote(encoded)


class Connection:
    """One raw connection to a runtime (the path of its socket) or a server (host and port); reads strictly by the framing of HTTP/1.1."""

    def __init__(self, address: str | tuple[str, int]) -> None:
        self.sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET, socket.SOCK_STREAM)
        self.sock.settimeout(ANSWER_TIMEOUT_SEC)
        self._buffer = b""
        try:
            self.sock.connect(address)
        except OSError:
            self.sock.close()
            raise

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def request(self, method: str, target: str, headers: list[tuple[str, str]] | None = None, body: bytes | None = None) -> Answer:
        self.send(request_bytes(method, target, headers or [], body))
        return self.read_answer(head_only=method == "HEAD")

    def read_line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._fill()
        line, self._buffer = self._buffer.split(b"\r\n", 1)
        return line

    def read_exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._fill()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def read_head(self) -> tuple[int, list[tuple[str, str]]]:
        status_line = self.read_line().decode("latin-1")
        assert status_line.startswith("HTTP/1.1 "), status_line
        headers = []
        while line := self.read_line():
            name, _, value = line.decode("latin-1").partition(":")
            headers.append((name, value.strip()))
        return int(status_line.split(" ")[1]), headers

    def read_chunk(self) -> bytes:
        """The next chunk of a chunked body; empty for the last one."""
        size = int(self.read_line().split(b";")[0], 16)
        data = self.read_exactly(size)
        assert self.read_exactly(2) == b"\r\n"
        return data

    def read_answer(self, *, head_only: bool = False) -> Answer:
        status, headers = self.read_head()
        while status == 100:
            status, headers = self.read_head()
        lowered = {name.lower(): value for name, value in headers}
        chunks: list[bytes] = []
        complete = True
        if head_only or status in (204, 304):
            body = b""
        elif lowered.get("transfer-encoding") == "chunked":
            complete = self._read_chunks(chunks)
            body = b"".join(chunks)
        elif "content-length" in lowered:
            body = self.read_exactly(int(lowered["content-length"]))
        else:
            body = self.read_to_end()
        return Answer(status=status, headers=headers, body=body, chunks=chunks, complete=complete)

    def _read_chunks(self, chunks: list[bytes]) -> bool:
        try:
            while chunk := self.read_chunk():
                chunks.append(chunk)
        except ConnectionError:
            return False
        return True

    def read_to_end(self) -> bytes:
        with contextlib.suppress(ConnectionError):
            while True:
                self._fill()
        data, self._buffer = self._buffer, b""
        return data

    def _fill(self) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("the other side closed the connection")
        self._buffer += data


def request_bytes(method: str, target: str, headers: list[tuple[str, str]], body: bytes | None) -> bytes:
    names = {name.lower() for name, _ in headers}
    lines = [f"{method} {target} HTTP/1.1"]
    if "host" not in names:
        lines.append("Host: fn.example")
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


@dataclass(slots=True)
class RuntimeProcess:
    """A runtime in server mode. `output` collects what it writes to its real stdout, `errors` its real stderr."""

    process: subprocess.Popen[bytes]
    address: str
    folder: str
    output: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)

    def connect(self) -> Connection:
        return Connection(self.address)

    def call(
        self, method: str = "POST", target: str = "/", headers: list[tuple[str, str]] | None = None, body: bytes | None = None
    ) -> Answer:
        with self.connect() as connection:
            return connection.request(method, target, headers, body)

    def call_json(self, event: Any, headers: list[tuple[str, str]] | None = None) -> Answer:
        body = json.dumps(event).encode()
        return self.call(body=body, headers=[("Content-Type", "application/json"), *(headers or [])])

    def control(self, target: str) -> Any:
        answer = self.call("GET", target, [("X-Sless-Control", "1")])
        assert answer.status == 200, answer
        return answer.json()

    def health(self) -> dict[str, int]:
        health: dict[str, int] = self.control("/_sless/health")
        return health

    def log_lines(self, after: int = 0) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = self.control(f"/_sless/logs?after={after}")["lines"]
        return lines

    def wait_for_lines(self, wanted: Callable[[list[dict[str, Any]]], bool], invocation_id: str | None = None) -> list[dict[str, Any]]:
        """Waits until the log lines (of one call, if named) satisfy `wanted`, and returns them."""
        found: list[dict[str, Any]] = []

        def found_all() -> bool:
            found[:] = [line for line in self.log_lines() if invocation_id is None or line["id"] == invocation_id]
            return wanted(found)

        wait_until(found_all, "log lines", detail=lambda: json.dumps(found[-20:]))
        return found

    def stop(self) -> int:
        """Kills the process and returns its exit code."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.finish()

    def finish(self) -> int:
        """Waits for the process to end by itself, collects its output and removes its folder."""
        code = self.process.wait(timeout=ANSWER_TIMEOUT_SEC)
        for reader in self.readers:
            reader.join(timeout=20)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code


def wait_until(condition: Callable[[], bool], what: str, *, timeout_sec: float = 30.0, detail: Callable[[], str] = str) -> None:
    """Returns when `condition` holds; fails, naming `what`, after `timeout_sec`."""
    deadline, pause = time.monotonic() + timeout_sec, pauses()
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting for {what} {detail()}"
        time.sleep(next(pause))


def environment_of(runtime: str, entrypoint: str, env: dict[str, str] | None = None) -> dict[str, str]:
    values = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "SLESS_ENTRYPOINT": go_entrypoint_of(entrypoint) if runtime == GO else entrypoint,
        "SLESS_CODE_DIR": str(handlers_dir(runtime)),
        "SLESS_FUNCTION_NAME": "conformance",
        "SLESS_NAMESPACE": "sless-0123456789abcdef",
        "SLESS_VERSION": "7",
        "SLESS_MEMORY_MB": "128",
        "SLESS_TIMEOUT_SEC": "30",
    }
    return {**values, **(env or {})}


def start_process(
    runtime: str, entrypoint: str, env: dict[str, str] | None = None, *, pass_fds: tuple[int, ...] = (), folder: str | None = None
) -> RuntimeProcess:
    """Starts a runtime in server mode without waiting for it."""
    command = command_of(runtime, entrypoint, _code_dir_of(env))
    folder = folder or tempfile.mkdtemp(prefix="slrt-", dir="/tmp")
    address = f"{folder}/s"
    process = subprocess.Popen(
        command,
        env={"SLESS_SOCKET": address, "HOME": folder, "TMPDIR": folder, **environment_of(runtime, entrypoint, env)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
        pass_fds=pass_fds,
    )
    started = RuntimeProcess(process=process, address=address, folder=folder)
    for pipe, lines in ((process.stdout, started.output), (process.stderr, started.errors)):
        reader = threading.Thread(target=_collect, args=(pipe, lines), daemon=True)
        reader.start()
        started.readers.append(reader)
    return started


def _code_dir_of(env: dict[str, str] | None) -> Path | None:
    folder = Path((env or {}).get("SLESS_CODE_DIR", ""))
    return folder if folder != Path() and folder.is_dir() else None


def _collect(pipe: Any, lines: list[str]) -> None:
    lines.extend(line.decode("utf-8", "replace").rstrip("\n") for line in pipe)


def wait_listening(started: RuntimeProcess) -> None:
    """Returns once the runtime accepts a connection; raises AssertionError with its output when it ends or takes too long."""

    def listening() -> bool:
        if started.process.poll() is not None:
            raise AssertionError(f"runtime exited with {started.finish()}: {started.output[-20:]} {started.errors[-20:]}")
        try:
            Connection(started.address).close()
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    wait_until(listening, "the runtime to listen", timeout_sec=START_TIMEOUT_SEC)


@contextlib.contextmanager
def running(
    runtime: str, entrypoint: str, env: dict[str, str] | None = None, *, pass_fds: tuple[int, ...] = ()
) -> Iterator[RuntimeProcess]:
    """A runtime that listens, ended at the end of the block."""
    started = start_process(runtime, entrypoint, env, pass_fds=pass_fds)
    try:
        wait_listening(started)
        yield started
    finally:
        started.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a runtime in job or check mode."""

    exit_code: int
    outcome: dict[str, Any] | None
    lines: list[dict[str, Any]]
    stdout: str
    stderr: str


def _result_of(outcome: dict[str, Any]) -> str | None:
    """The result as sless derives it."""
    body = base64.b64decode(outcome["body_base64"]) if "body_base64" in outcome else outcome["body"].encode()
    return result_of(outcome["status"], [(name, value) for name, value in outcome["headers"]], body) if outcome["ok"] else None


def run_once(runtime: str, entrypoint: str, env: dict[str, str], *, mode: str = "job", result_file: bool = True) -> Outcome:
    """Runs job or check mode to its end. A compile error counts as an import failure."""
    try:
        command = command_of(runtime, entrypoint, _code_dir_of(env))
    except BuildFailed as failed:
        return Outcome(exit_code=1, outcome=None, lines=[], stdout="", stderr=str(failed))
    with tempfile.TemporaryDirectory(prefix="slrt-", dir="/tmp") as folder:
        result_path = Path(folder) / "outcome.json"
        extra = {"SLESS_RESULT_FILE": str(result_path)} if result_file else {}
        done = subprocess.run(
            command,
            env={"HOME": folder, "SLESS_MODE": mode, **extra, **environment_of(runtime, entrypoint, env)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        stdout = done.stdout.decode("utf-8", "replace")
        objects = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
        lines = [item for item in objects if "seq" in item]
        if result_path.exists():
            outcome = json.loads(result_path.read_text())
        else:
            outcome = next((item["sless_outcome"] for item in objects if "sless_outcome" in item), None)
        if outcome is not None:
            outcome["result"] = _result_of(outcome)
        return Outcome(
            exit_code=done.returncode, outcome=outcome, lines=lines, stdout=stdout, stderr=done.stderr.decode("utf-8", "replace")
        )
