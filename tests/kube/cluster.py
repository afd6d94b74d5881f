"""Starts the stand-in for tests, and talks to it."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.kinds import kind_of
from tests.waiting import pauses

ROOT = Path(__file__).resolve().parents[2]
START_SEC = 30.0
Object = dict[str, Any]


class KubeRefused(Exception):
    """An error response to a request of the test itself."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body[:500]}")
        self.status, self.body = status, body

    @property
    def details(self) -> Object:
        """The Status object of the response."""
        found: Object = json.loads(self.body)
        return found


class KubeCluster:
    """A running stand-in. `url` and `kubeconfig` are for the code under test, the methods for the test."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slk-", dir="/tmp"))
        self._log = self.folder / "server.log"
        environ = {key: value for key, value in os.environ.items() if not key.startswith("SLESS_")}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kube.server", str(self.folder)], cwd=ROOT, env=environ,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise RuntimeError(f"the stand-in did not start: {self._log.read_text()}")
        ports = json.loads(line)
        self.url = f"http://127.0.0.1:{ports['port']}"
        self._control = f"http://127.0.0.1:{ports['control']}"
        self.kubeconfig = self.write_kubeconfig("sless")

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Ends it and every container. Its reaper outlives it briefly and removes its folder."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def write_kubeconfig(self, user: str) -> Path:
        """A separate kubeconfig per user, because `enforce` sets rules per user."""
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "stand-in",
            "clusters": [{"name": "stand-in", "cluster": {"server": self.url}}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": user, "namespace": "default"}}],
        }  # fmt: skip
        path = self.folder / f"kubeconfig-{user}"
        path.write_text(json.dumps(content))
        return path

    # --- the API as the test's own user ---

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str) -> Any:
        """JSON (or text). Raises KubeRefused."""
        text = "&".join(f"{key}={urllib.request.quote(value)}" for key, value in query.items())
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Authorization": "Bearer test", "User-Agent": "test"}
        request = urllib.request.Request(self.url + path + (f"?{text}" if text else ""), data, headers, method=method)
        return _answer_of(request)

    def create(self, item: Object) -> Object:
        found: Object = self.request("POST", self.path_of(item["kind"], item["metadata"].get("namespace", "")), item)
        return found

    def apply(self, item: Object, manager: str = "test", force: bool = True) -> Object:
        path = self.path_of(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        found: Object = self.request("PATCH", path, item, "application/apply-patch+yaml", **query)
        return found

    def get(self, kind: str, namespace: str, name: str) -> Object:
        found: Object = self.request("GET", self.path_of(kind, namespace, name))
        return found

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        try:
            return self.get(kind, namespace, name)
        except KubeRefused as refused:
            if refused.status != 404:
                raise
            return None

    def list(self, kind: str, namespace: str = "", selector: str = "") -> "list[Object]":
        query = {"labelSelector": selector} if selector else {}
        found: list[Object] = self.request("GET", self.path_of(kind, namespace), **query)["items"]
        return found

    def delete(self, kind: str, namespace: str, name: str, **options: Any) -> None:
        self.request("DELETE", self.path_of(kind, namespace, name), {"apiVersion": "v1", "kind": "DeleteOptions", **options})

    def log(self, namespace: str, pod: str, **query: str) -> str:
        found = self.request("GET", self.path_of("Pod", namespace, pod) + "/log", **query)
        return found if isinstance(found, str) else json.dumps(found)

    @staticmethod
    def path_of(kind: str, namespace: str = "", name: str = "") -> str:
        found = kind_of(kind)
        where = f"/namespaces/{namespace}" if namespace and found.namespaced else ""
        return f"{found.prefix}{where}/{found.plural}" + (f"/{name}" if name else "")

    # --- recorded requests ---

    def requests(self, user: str | None = "sless") -> "list[Object]":
        """The requests of one user, or of all (None), in order: verb, group, resource, subresource, namespace, name, status …"""
        found: list[Object] = self.control("requests")
        return [item for item in found if user is None or item["user"] == user]

    def clear_requests(self) -> None:
        self.control("clear_requests")

    def complaints(self, *, clear: bool = False) -> "dict[str, list[str]]":
        found: dict[str, list[str]] = self.control("complaints", clear=clear)
        return found

    def check(self) -> None:
        """Fails if a schema rejected a body, or a controller of the stand-in raised."""
        found = self.complaints()
        assert not found["violations"], "bodies that Kubernetes refuses:\n" + "\n".join(found["violations"])
        assert not found["failures"], "the stand-in failed:\n" + "\n".join(found["failures"])

    def reset(self) -> None:
        """Empties the cluster; the process stays."""
        self.control("reset")

    # --- behaviour ---

    def script(self, act: str, **fields: Any) -> int:
        """Pods that match `image` (a substring), `namespace` and `labels` follow the script; see scripts.Script."""
        number: int = self.control("script", act=act, **fields)
        return number

    def clear_scripts(self) -> None:
        self.control("clear_scripts")

    def add_image(self, reference: str, image: Object) -> None:
        """`image` has the fields of images.Image: entrypoint, command, env, workdir, paths."""
        self.control("image", reference=reference, image=image)

    def remove_image(self, reference: str) -> None:
        self.control("image", reference=reference)

    def away(self, seconds: float) -> None:
        """Refuses connections for that long."""
        self.control("away", seconds=seconds)

    def fault(self, status: int = 0, **fields: Any) -> None:
        """The next `times` requests that match `verbs` and `resources` get this status after `delay_sec`; `after`: but take effect."""
        self.control("fault", status=status, **fields)

    def set_faults(self, **flags: bool) -> None:
        """`expire_continue`, `stall_namespaces`, `clear`."""
        self.control("set_faults", **flags)

    def enforce(
        self, user: str, cluster: "list[Object] | None", local: "dict[str, list[Object]] | None" = None, writable: "list[str] | None" = None
    ) -> None:
        """Allows only what these RBAC rules of a ClusterRole, and of Roles by namespace, allow. Both None: everything. `writable`: patterns
        of the namespaces in which an admission policy allows changes."""
        self.control("enforce", user=user, cluster=cluster, local=local, writable=writable)

    def options(self, **values: float) -> None:
        """`crash_backoff_sec`: the first pause between restarts. `sandbox_sec`: from binding a Pod to starting its containers."""
        self.control("options", **values)

    def node(self, **changes: Any) -> None:
        """Changes `allocatable` or `labels` of the only node."""
        self.control("node", **changes)

    def control(self, operation: str, **given: Any) -> Any:
        return _answer_of(urllib.request.Request(f"{self._control}/{operation}", json.dumps(given).encode(), method="POST"))

    def wait_until(self, find: Callable[[], Any], what: str, timeout_sec: float = 40.0) -> Any:
        """Returns the first truthy result of `find`."""
        deadline, pause = time.monotonic() + timeout_sec, pauses()
        while not (found := find()):
            assert time.monotonic() < deadline, f"not within {timeout_sec:.0f} s: {what}"
            time.sleep(next(pause))
        return found


def _answer_of(request: urllib.request.Request) -> Any:
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        with error:
            raise KubeRefused(error.code, error.read().decode(errors="replace")) from None
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


@contextlib.contextmanager
def running_cluster() -> Iterator[KubeCluster]:
    """A stand-in; runs `check` at the end."""
    cluster = KubeCluster()
    try:
        yield cluster
        cluster.check()
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def _kube_server() -> Iterator[KubeCluster]:
    cluster = KubeCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def kube_cluster(_kube_server: KubeCluster) -> Iterator[KubeCluster]:
    """An empty stand-in; fails a test whose requests Kubernetes would reject."""
    _kube_server.reset()
    yield _kube_server
    _kube_server.check()
