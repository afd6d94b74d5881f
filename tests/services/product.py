"""The real server as a separate process, and the command line, with their own folders."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import requests

from sless.config import Settings
from sless.domain.durations import Durations
from sless.ids import namespace_of
from sless.tokens import issue_token
from tests.services import free_ports, serving
from tests.services.command_line import run_command
from tests.services.forking import ForkedServer, fork_server
from tests.waiting import pauses

ROOT = Path(__file__).resolve().parents[2]
START_SEC = 60.0


def free_port() -> int:
    return free_ports(1)[0]


def wait_until(check: Callable[[], bool], what: str, timeout_sec: float = 30.0) -> None:
    deadline, pause = time.monotonic() + timeout_sec, pauses()
    while not check():
        assert time.monotonic() < deadline, f"not within {timeout_sec:.0f} s: {what}"
        time.sleep(next(pause))


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


@dataclass
class Place:
    """A data folder and a folder for sockets, with the `environ` of processes that use them."""

    data_dir: Path
    run_dir: Path
    environ: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.environ = os.environ | {
            "SLESS_DATA_DIR": str(self.data_dir),
            "SLESS_RUN_DIR": str(self.run_dir),
            "PYTHONUNBUFFERED": "1",
            "SLESS_LOCAL_SANDBOX": "none",
        }
        # The rules take 0.3 s per upload; `tests/integration/test_code_checks.py` turns them on.
        self.environ.setdefault("SLESS_RULES_MODE", "off")

    def popen(self, *arguments: str, **options) -> "subprocess.Popen[str]":
        command = [sys.executable, str(ROOT / "sless.py"), *arguments]
        return subprocess.Popen(command, env=self.environ, text=True, stdin=subprocess.DEVNULL, **options)

    def run(self, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(ROOT / "sless.py"), *arguments]
        return subprocess.run(command, env=self.environ | environ, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=100)

    def sless(self, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        """The same in this process, without more than a second for a new interpreter and its imports."""
        return run_command(arguments, self.environ | environ)

    def processes(self) -> list[int]:
        """Processes of this place: their command line, environment or working folder names it."""
        marks = (str(self.data_dir).encode(), str(self.run_dir).encode())
        return [pid for pid in _pids() if any(mark in text for text in _texts_of(pid) for mark in marks)]


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _texts_of(pid: int) -> Iterator[bytes]:
    for name in ("cmdline", "environ"):
        try:
            yield Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            continue
    try:
        yield os.readlink(f"/proc/{pid}/cwd").encode()
    except OSError:
        return


class new_place:  # noqa: N801 - reads as a statement
    """A Place; at the end, fails if any of its processes is left."""

    def __init__(self, folder: Path) -> None:
        # Unix sockets need short paths, so not below pytest's folders.
        self._place = Place(folder / "data", Path(tempfile.mkdtemp(prefix="sl-", dir="/tmp")))

    def __enter__(self) -> Place:
        return self._place

    def __exit__(self, *_: object) -> None:
        left = self._place.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._place.run_dir, ignore_errors=True)
        assert not left, f"processes left behind: {left}"


class Product:
    """`sless serve` in a place: can be started, ended, killed and started again. `port` 0 is a free one. It is forked from a process that
    has imported the product, except with `preexec`, which runs in the child before exec."""

    def __init__(self, place: Place, durations: Durations | None = None, **environ: str) -> None:
        self.place = place
        self.place.environ |= environ
        self.durations = durations
        self.process: subprocess.Popen[str] | ForkedServer | None = None
        self.url = ""
        self.port = 0

    def start(self, preexec: Callable[[], None] | None = None) -> "Product":
        self.begin(preexec)
        self.await_ready()
        return self

    def begin(self, preexec: Callable[[], None] | None = None) -> None:
        self.state_file.unlink(missing_ok=True)
        if preexec is not None:
            assert self.durations is None
            with open(self.log_file, "a") as log:
                self.process = self.place.popen("serve", "--port", str(self.port), stdout=log, stderr=log, preexec_fn=preexec)
            return
        where = (self.place.environ, str(self.place.data_dir), self.log_file)
        if self.durations is None:
            self.process = fork_server(["serve", "--port", str(self.port)], *where)
        else:
            self.place.environ["TEST_DURATIONS"] = json.dumps(asdict(self.durations))
            self.process = fork_server([str(self.port)], *where, module=serving.__name__)

    def await_ready(self) -> None:
        wait_until(lambda: self._has_ended() or self.state_file.exists(), "the server listens", START_SEC)
        if not self._has_ended():
            self.url = json.loads(self.state_file.read_text())["url"]
            wait_until(lambda: self._has_ended() or answers(f"{self.url}/readyz"), "the server is ready", START_SEC)
        assert not self._has_ended(), self.log

    def end(self, number: int = signal.SIGTERM) -> int:
        """Sends the signal and returns the server's exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def kill(self, *, master: bool = False, worker: bool = False) -> None:
        """Sends SIGKILL; waits for the master to end."""
        assert self.process is not None
        pids = [self.process.pid] * master + [self.worker] * worker
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if master:
            self.process.wait(30)

    @property
    def worker(self) -> int:
        """The worker's pid; 0 while there is none."""
        assert self.process is not None
        return int((Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split() or [0])[0])

    @property
    def state_file(self) -> Path:
        return self.place.data_dir / "server.json"

    @property
    def log_file(self) -> Path:
        return self.place.run_dir.with_suffix(".log")

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def is_running(self) -> bool:
        return not self._has_ended()

    def _has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def close(self) -> None:
        if self.process is not None and not self._has_ended():
            self.end()
        wait_until(lambda: not self.place.processes(), "all processes have ended", 40)
        self.log_file.unlink(missing_ok=True)

    def tenant(self, sub: str) -> "Tenant":
        """With a token as from `sless token`, but without a process."""
        settings = Settings(data_dir=self.place.data_dir, auth_mode="local")
        return Tenant(self, issue_token(settings, sub, 24 * 3600), namespace_of(sub))


class Tenant:
    """Requests of one tenant. Paths without a leading / are relative to its namespace."""

    def __init__(self, product: Product, token: str, namespace: str) -> None:
        self.product = product
        self.token = token
        self.namespace = namespace

    def call(self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **options: Any) -> requests.Response:
        full = path if path.startswith("/") else f"/v1/namespaces/{self.namespace}/{path}"
        sent = {"Authorization": f"Bearer {self.token}"} | dict(headers or {})
        return requests.request(method, self.product.url + full, headers=sent, timeout=60, **options)

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.call("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        return self.call("POST", path, **({} if body is None else {"json": body}) | options)

    def patch(self, path: str, body: Any) -> requests.Response:
        return self.call("PATCH", path, json=body)

    def leave(self) -> None:
        """Deletes its namespace, if the server runs."""
        if self.product.is_running:
            self.call("DELETE", f"/v1/namespaces/{self.namespace}?confirm={self.namespace}")

    def create(self, name: str, kind: str = "function", **fields: Any) -> dict[str, Any]:
        answer = self.post(f"{kind}s", {"name": name, "runtime": "python3.11"} | fields)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def upload(self, name: str, files: Mapping[str, Any] | str, kind: str = "function") -> requests.Response:
        """`files` as text: the content of handler.py."""
        return self.post(f"{kind}s/{name}/upload", {"files": {"handler.py": files} if isinstance(files, str) else files})

    def settled(self, name: str, kind: str = "function", version: int | None = None, timeout_sec: float = 90.0) -> dict[str, Any]:
        """Waits until the newest version (at least `version`) is built and the resource is Ready or Failed; returns the resource."""
        found: dict[str, Any] = {}

        def is_settled() -> bool:
            found.clear()
            found.update(self.get(f"{kind}s/{name}").json())
            wanted = version is None or (found.get("latest_version") or 0) >= version
            return wanted and found["phase"] in ("Ready", "Failed")

        try:
            wait_until(is_settled, f"{kind} {name} is Ready or Failed", timeout_sec)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {found}") from None
        return found

    def deploy(self, name: str, files: Mapping[str, Any] | str, *, http: bool = True, kind: str = "function", **fields: Any) -> str:
        """Returns the path of the ready workload below /fn."""
        path = self.begin_deploy(name, files, http=http, kind=kind, **fields)
        ready = self.settled(name, kind)
        assert ready["phase"] == "Ready", ready
        return path

    def begin_deploy(self, name: str, files: Mapping[str, Any] | str, *, http: bool = True, kind: str = "function", **fields: Any) -> str:
        """The same without waiting until it is ready, so that several become ready together."""
        self.create(name, kind, **fields)
        if http and kind == "function":
            answer = self.post("triggers", {"name": name, "type": "http", "function_ref": name})
            assert answer.status_code == 201, answer.text
        answer = self.upload(name, files, kind)
        assert answer.status_code == 202, answer.text
        return f"/fn/{self.namespace}/{name}"

    def invoke_later(self, name: str, event: Any = None) -> str:
        """Makes an asynchronous call; returns its id."""
        answer = self.post(f"functions/{name}/invoke", {} if event is None else event, headers={"Prefer": "respond-async"})
        assert answer.status_code == 202, answer.text
        return str(answer.headers["Location"].rpartition("/")[2])

    def invocation(self, name: str, invocation_id: str) -> dict[str, Any]:
        return dict(self.get(f"functions/{name}/invocations/{invocation_id}").json())

    def ended_call(self, name: str, invocation_id: str, timeout_sec: float = 40.0) -> dict[str, Any]:
        def has_ended() -> bool:
            return self.invocation(name, invocation_id).get("status") not in ("queued", "running")

        wait_until(has_ended, f"call {invocation_id} of {name} has ended", timeout_sec)
        return self.invocation(name, invocation_id)

    def ended_job(self, name: str, timeout_sec: float = 40.0) -> dict[str, Any]:
        wait_until(lambda: self.get(f"jobs/{name}").json()["phase"] in ("Succeeded", "Failed"), f"job {name} has ended", timeout_sec)
        return dict(self.get(f"jobs/{name}").json())


@contextlib.contextmanager
def running_product(folder: Path, durations: Durations | None = None, **environ: str) -> Iterator[Product]:
    """A started server; fails if it leaves processes behind."""
    with new_place(folder) as place:
        product = Product(place, durations, **environ)
        try:
            yield product.start()
        finally:
            product.close()


def zip_of(files: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()
