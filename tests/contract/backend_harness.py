"""Harness of the backend suite: stores code, calls instances, collects log lines, waits."""

import http.client
import io
import json
import shutil
import socket
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from sless.backend.local import LocalBackend, make_local_backend
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.model import CallTrigger, Endpoint, Kind, LogLine
from sless.domain.ports import Deployment, ObservedDeployment, ObservedRun, Revision, RunSpec
from sless.errors import NotFound
from sless.host.material import Material
from sless.ids import new_id
from tests.waiting import pauses


class MemoryCode:
    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put(self, key: str, source: Path) -> None:
        self.blobs[key] = source.read_bytes()

    def open(self, key: str) -> BinaryIO:
        if key not in self.blobs:
            raise NotFound("code", key)
        return io.BytesIO(self.blobs[key])

    def delete(self, key: str) -> None:
        self.blobs.pop(key, None)

    def add(self, files: Mapping[str, str | bytes], *, executable: tuple[str, ...] = ()) -> str:
        """Stores a zip of these files and returns its key."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name)
                entry.external_attr = (0o100755 if name in executable else 0o100644) << 16
                archive.writestr(entry, content)
        key = f"ns/{new_id()}.zip"
        self.blobs[key] = packed.getvalue()
        return key


def wait_until(find: Callable[[], Any], what: str | Callable[[], str], timeout_sec: float = 20.0) -> Any:
    """Polls `find` and returns its first true value."""
    deadline, pause = time.monotonic() + timeout_sec, pauses()
    while time.monotonic() < deadline:
        if found := find():
            return found
        time.sleep(next(pause))
    raise AssertionError(f"not within {timeout_sec} s: {what if isinstance(what, str) else what()}")


class BackendHarness:
    """One server's backend; `restart` replaces the server but keeps what it left behind."""

    name = ""
    start_sec = 20.0
    """Time for an instance to become ready, or a run to end."""
    noticed_sec = 5.0
    """Time to notice the end of an instance and replace it."""
    image_env: tuple[str, ...] = ()
    """Variables set by images and pods."""
    settings: Settings
    backend: Any
    durations = Durations()

    def __init__(self) -> None:
        self.code = MemoryCode()
        self.lines: list[LogLine] = []
        self.changes = threading.Semaphore(0)

    def make(self) -> Any:
        raise NotImplementedError

    def restart(self, **durations: float) -> None:
        self.backend.close()
        self.durations = replace(self.durations, **durations)
        self.backend = self.make()

    # --- deployments ---

    def revision(self, files: Mapping[str, str | bytes], **fields: Any) -> Revision:
        given = {
            "workload_id": new_id(), "namespace": "sless-0123456789abcdef", "name": "hello", "kind": Kind.FUNCTION, "version": 1,
            "runtime": "python3.11", "entrypoint": "handler.handle", "artifact": "", "memory_mb": 128, "timeout_sec": 30,
        }  # fmt: skip
        return Revision(code_key=self.code.add(files), **{**given, **fields})

    def python(self, source: str, **fields: Any) -> Revision:
        return self.revision({"handler.py": source}, **fields)

    def adapted(self, revision: Revision) -> Revision:
        """The revision as a build of its current code would leave it."""
        return revision

    def apply(self, revision: Revision, replicas: int = 1, generation: int = 1) -> None:
        self.backend.apply(Deployment(revision=self.adapted(revision), replicas=replicas, generation=generation))

    def observed(self, revision: Revision) -> ObservedDeployment | None:
        return self.backend.observe().get(revision.workload_id)

    def endpoints(self, revision: Revision) -> list[Endpoint]:
        """The endpoints that accept calls."""
        seen = self.observed(revision)
        return [one for one in seen.endpoints if not one.draining] if seen else []

    def wait_failing(self, revision: Revision, text: str = "") -> ObservedDeployment:
        """Waits until it is failing with `text` in its message; the log is read shortly after the exit is observed."""

        def failing() -> ObservedDeployment | None:
            seen = self.observed(revision)
            return seen if seen is not None and seen.failing and text in seen.message else None

        found: ObservedDeployment = wait_until(failing, lambda: f"failing, but {self.observed(revision)}", self.start_sec)
        return found

    def wait_ready(self, revision: Revision, generation: int = 1) -> list[Endpoint]:
        def ready() -> bool:
            seen = self.observed(revision)
            return seen is not None and seen.generation == generation

        wait_until(ready, lambda: f"ready, but {self.observed(revision)}", self.start_sec)
        return self.endpoints(revision)

    def deploy(self, revision: Revision, replicas: int = 1, generation: int = 1) -> list[Endpoint]:
        self.apply(revision, replicas, generation)
        return self.wait_ready(revision, generation)

    def call(self, endpoint: Endpoint, path: str = "/", *, timeout_sec: float = 20, **headers: str) -> Any:
        """Returns the JSON response; a keyword `X_Name` sets the header `X-Name`."""
        connection = connection_to(endpoint, timeout_sec)
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    # --- runs ---

    def start_run(self, revision: Revision, event: Any = None) -> tuple[str, threading.Event, list[ObservedRun]]:
        run_id, ended, results = new_id(), threading.Event(), []

        def done(run: ObservedRun) -> None:
            results.append(run)
            ended.set()

        self.backend.start_run(
            RunSpec(id=run_id, revision=revision, event=json.dumps(event), request_id="req-1", trigger=CallTrigger.JOB), done
        )
        return run_id, ended, results

    def run(self, revision: Revision, event: Any = None) -> ObservedRun:
        _, ended, results = self.start_run(revision, event)
        assert ended.wait(self.start_sec), "the run did not end"
        return results[0]


class LocalHarness(BackendHarness):
    """Local processes."""

    name = "local"

    def __init__(self, root: Path | None = None) -> None:
        """`root`: the folder of another server, which then has to remove it."""
        super().__init__()
        self.root = root or Path(tempfile.mkdtemp(prefix="slb-", dir="/tmp"))
        self.settings = Settings(data_dir=self.root / "data", run_dir=self.root / "run", max_result_bytes=1000, local_sandbox="none")
        self.backend: LocalBackend = self.make()

    def make(self) -> LocalBackend:
        self.material = Material(self.settings.data_dir, self.code)
        return make_local_backend(self.settings, self.material, self.lines.extend, self.changes.release, durations=self.durations)

    def close(self) -> None:
        self.backend.close()
        shutil.rmtree(self.root)


def connection_to(endpoint: Endpoint, timeout_sec: float) -> http.client.HTTPConnection:
    """A new connection to an instance: `unix:/path` or `host:port`."""
    if endpoint.address.startswith("unix:"):
        connection = http.client.HTTPConnection("instance", timeout=timeout_sec)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(timeout_sec)
        connection.sock.connect(endpoint.address.removeprefix("unix:"))
        return connection
    return http.client.HTTPConnection(endpoint.address, timeout=timeout_sec)
