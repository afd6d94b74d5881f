"""The measured servers: nginx, sless, standalone runtimes, Google's functions-frameworks. Each gets a free port and is ended afterwards."""

import json
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
from contextlib import contextmanager
from pathlib import Path

from sless.builder.failures import BuildFailed
from sless.builder.go_toolchain import find_toolchain
from tests.conformance.go_programs import go_program
from tests.services import start_following

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = Path(__file__).resolve().parent / "functions"
TOOLS = ROOT / "build" / "bench"
"""Where the frameworks are installed; ignored by git."""
START_SEC = 60.0


class Missing(Exception):
    """A program that the group needs is not installed here; the row says so."""


class Served(str):
    """The URL of a server; `pid` is the leader of its process group."""

    pid: int

    @classmethod
    def by(cls, child: "subprocess.Popen[bytes]", url: str) -> "Served":
        served = cls(url)
        served.pid = child.pid
        return served

    def processor_sec(self) -> float:
        """Processor time that the group has used so far."""
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self.pid:
                total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(check: Callable[[], bool], what: str, timeout_sec: float = START_SEC) -> None:
    deadline = time.monotonic() + timeout_sec
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_sec:.0f} s")
        time.sleep(0.005)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False


def clean_environ(**more: str) -> dict[str, str]:
    """Without the developer's settings, and without variables that distort start times (no bytecode)."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SLESS_") and key != "PYTHONDONTWRITEBYTECODE"}
    return kept | more


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder with a path short enough for unix sockets. A test of the bench itself sets BENCH_TMP."""
    path = Path(tempfile.mkdtemp(prefix="slb-", dir=os.environ.get("BENCH_TMP", "/tmp")))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def process(command: list[str], *, follows: bool = True, **options) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs in a new process group, which is ended with it. `follows`: also if the bench is killed; makes the start 2 ms slower."""
    options.setdefault("env", clean_environ())
    options.setdefault("stdout", subprocess.DEVNULL)
    options.setdefault("stderr", subprocess.DEVNULL)
    options["process_group"] = 0
    child = start_following(command, "TERM", **options) if follows else subprocess.Popen(command, **options)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


@contextmanager
def nginx(folder: Path, servers: str) -> Iterator[None]:
    """One worker, no log, in the foreground; `servers` is the content of the http block."""
    if shutil.which("nginx") is None:
        raise Missing("nginx is not installed (Debian: nginx-light)")
    (folder / "nginx").mkdir()
    config = folder / "nginx.conf"
    temp = "".join(f"{kind}_temp_path {folder}/nginx/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    # Started by root, nginx would otherwise switch to a user without access to the socket's private folder.
    user = "user root;" if os.getuid() == 0 else ""
    config.write_text(
        f"{user} daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log /dev/null crit;"
        "events { worker_connections 2048; }"
        f"http {{ access_log off; keepalive_requests 100000000; keepalive_timeout 75s; {temp} {servers} }}"
    )
    with process(["nginx", "-p", str(folder), "-c", str(config)]):
        yield


@contextmanager
def sless_server(folder: Path, *arguments: str, command: list[str] | None = None, **environ: str) -> Iterator[Served]:
    """The real server with a new data folder; yields its URL once ready. Its process group is master and worker, without functions."""
    data_dir = folder / "data"
    command = command or [sys.executable, str(ROOT / "sless.py"), "serve"]
    folders = {"SLESS_DATA_DIR": str(data_dir), "SLESS_RUN_DIR": str(folder / "run")}
    unlimited = {"SLESS_LOG_LEVEL": "warning", "SLESS_LIMIT_CALLS_PER_MINUTE": str(10**12)}
    environment = clean_environ(**folders, **unlimited | environ)
    with open(folder / "sless.log", "wb") as log, process([*command, "--port", "0", *arguments], env=environment, stderr=log) as child:
        state = data_dir / "server.json"
        wait_until(lambda: state.exists() or child.poll() is not None, "sless listens")
        if child.poll() is not None:
            raise RuntimeError(f"sless ended: {(folder / 'sless.log').read_text()[-2000:]}")
        url = json.loads(state.read_text())["url"]
        wait_until(lambda: answers(url + "/readyz"), "sless is ready")
        yield Served.by(child, url)


@contextmanager
def runtime(name: str, code: Path, folder: Path) -> Iterator[Served]:
    """A standalone runtime on TCP."""
    port = free_port()
    if name == "go1.23":
        start = [str(go_handler(code))]
    else:
        start = {
            "python3.11": [sys.executable, "-E", "-s", "-S", str(ROOT / "runtimes/python3.11/runtime.py")],
            "nodejs20": ["node", str(ROOT / "runtimes/nodejs20/runtime.mjs")],
        }[name]
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "SLESS_CODE_DIR": str(code), "SLESS_PORT": str(port),
        "SLESS_ENTRYPOINT": "handler.handle", "SLESS_CONCURRENCY": "300",
    }  # fmt: skip
    with process(start, env=environment) as child:
        url = f"http://127.0.0.1:{port}/"
        wait_until(lambda: answers(url), f"runtime {name} listens")
        yield Served.by(child, url)


def go_handler(code: Path) -> Path:
    """Builds the program for handler.Handle in `code`."""
    try:
        return go_program(code, "handler.Handle")
    except BuildFailed as missing:
        raise Missing(str(missing)) from missing


@contextmanager
def bare_go_server() -> Iterator[Served]:
    """net/http without sless, compiled with the same flags."""
    program, source = TOOLS / "go" / "bare", FUNCTIONS / "bare_go"
    try:
        go = find_toolchain().binary
    except BuildFailed as missing:
        raise Missing(str(missing)) from missing
    environment = {"GOCACHE": str(ROOT / "build" / "go-cache"), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    command = [str(go), "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), "."]
    subprocess.run(command, cwd=source, env={**clean_environ(), **environment}, check=True)
    port = free_port()
    with process([str(program), str(port)]) as child:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/"), "the bare server listens")
        yield Served.by(child, f"http://127.0.0.1:{port}/")


@contextmanager
def python_framework() -> Iterator[Served]:
    """Google's functions-framework for Python, installed from PyPI into a separate folder."""
    venv = TOOLS / "python"
    if not (venv / "bin" / "functions-framework").exists():
        subprocess.run([sys.executable, "-m", "uv", "venv", "-q", "--clear", str(venv), "--python", sys.executable], check=True)
        subprocess.run(
            [sys.executable, "-m", "uv", "pip", "install", "-q", "--python", str(venv / "bin/python"), "functions-framework"], check=True
        )
    port = free_port()
    source = FUNCTIONS / "framework_python" / "main.py"
    command = [
        str(venv / "bin/functions-framework"),
        "--target",
        "hello",
        "--source",
        str(source),
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
    ]
    with process(command) as child:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/"), "functions-framework for Python listens")
        yield Served.by(child, f"http://127.0.0.1:{port}/")


@contextmanager
def node_framework() -> Iterator[Served]:
    """Google's functions-framework for Node, installed from npm into a separate folder."""
    folder = TOOLS / "node"
    binary = folder / "node_modules/.bin/functions-framework"
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        subprocess.run(
            ["npm", "install", "--silent", "--no-audit", "--no-fund", "@google-cloud/functions-framework"], cwd=folder, check=True
        )
    port = free_port()
    command = [str(binary), "--target=hello", f"--source={FUNCTIONS / 'framework_node'}", f"--port={port}"]
    with process(command, env=clean_environ(NODE_ENV="production")) as child:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/"), "functions-framework for Node listens")
        yield Served.by(child, f"http://127.0.0.1:{port}/")
