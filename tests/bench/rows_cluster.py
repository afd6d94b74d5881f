"""The Kubernetes backend on the stand-in cluster (`tests/kube`): uploads, and an idle server with many functions.

Containers are real processes on this machine. A Pod's start takes SANDBOX_SEC longer than its process, and a Job is reported as complete
2 s after its container's end, as on a real cluster.
"""

import sqlite3
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sless.client import Client
from sless.ids import new_id
from tests.bench.client import connect, small_zip
from tests.bench.effort import Effort
from tests.bench.places import Served, answers, sless_server, temporary_folder, wait_until
from tests.bench.table import Row, at_most
from tests.kube.cluster import KubeCluster, running_cluster

SANDBOX_SEC = 0.5
TIMES, AT_ONCE, MANY = 7, 30, 500
SETTLE_SEC, WATCHED_SEC = 20, 60
NAMESPACE = "sless"
LONGEST_SEC = 120
TENANTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    kube: KubeCluster
    server: Served
    client: Client
    folder: Path


def cluster(effort: Effort) -> Iterator[Row]:
    with _server() as found:
        times, at_once, many = effort.times(TIMES), effort.times(AT_ONCE), effort.times(MANY)
        single = [_upload_to_first_200(found.client, f"one{number}") for number in range(times)]
        yield at_most(
            "cluster: upload to first 200, small code", statistics.median(single), 3.5, unit="s",
            detail=f"{min(single):.2f} to {max(single):.2f} s over {times} functions",
        )  # fmt: skip
        with ThreadPoolExecutor(at_once) as pool:
            clients = [connect(found.server, found.folder, f"tenant{number}") for number in range(TENANTS)]
            began = time.monotonic()
            together = sorted(pool.map(lambda number: _upload_to_first_200(clients[number % TENANTS], f"burst{number}"), range(at_once)))
        yield at_most(
            f"cluster: {at_once} uploads at once by {TENANTS} tenants, until the last answers", time.monotonic() - began, 30, unit="s",
            detail=f"first {together[0]:.1f} s, median {statistics.median(together):.1f} s",
        )  # fmt: skip
    with _server() as found:
        _add_idle(found, many)
        yield from _idle(found, many, effort)


@contextmanager
def _server() -> Iterator[Cluster]:
    with temporary_folder() as folder, running_cluster() as kube:
        kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        kube.options(sandbox_sec=SANDBOX_SEC)
        settings = {
            "SLESS_BACKEND": "kubernetes", "SLESS_KUBECONFIG": str(kube.kubeconfig), "SLESS_POD_NAMESPACE": NAMESPACE,
            "SLESS_AUTH_MODE": "local", "SLESS_INTERNAL_URL": "http://sless.sless.svc:9090", "SLESS_REGISTRY_HOST": "registry.test",
            "SLESS_LIMIT_FUNCTIONS": "2000", "SLESS_LIMIT_TRIGGERS": "2000", "SLESS_LIMIT_BUILDS_PER_HOUR": "10000",
            "SLESS_LIMIT_INSTANCES": "2000", "SLESS_LIMIT_MEMORY_MB": "1000000", "SLESS_TENANT_MEMORY": "64Gi",
            "SLESS_TENANT_CPU": "500", "SLESS_TENANT_PODS": "600",
        }  # fmt: skip
        with sless_server(folder, **settings) as server:
            yield Cluster(kube=kube, server=server, client=connect(server, folder), folder=folder)


def _upload_to_first_200(client: Client, name: str) -> float:
    client.functions.create({"name": name, "runtime": "python3.11"})
    return _deploy(client, name)


def _deploy(client: Client, name: str) -> float:
    """Returns the seconds from upload to the first 200."""
    client.triggers.create({"name": name, "type": "http", "function_ref": name})
    url = client.functions.get(name)["url"]
    began = time.monotonic()
    client.functions.upload(name, small_zip({"handler.py": f"def handle(event):\n    return {name!r}\n"}))
    while not answers(url):
        if time.monotonic() - began > LONGEST_SEC:
            raise TimeoutError(f"{name} does not answer: {client.functions.get(name)}")
        time.sleep(0.1)  # 30 clients that poll faster would be measured instead
    return time.monotonic() - began


def _add_idle(found: Cluster, count: int) -> None:
    """Functions with triggers and objects in the cluster, but without instances. One is deployed, and the rows of the others are copies:
    they share its code and count as proven. To deploy them all, the stand-in would need minutes."""
    found.client.functions.create({"name": "idle", "runtime": "python3.11", "idle_seconds": 1})
    _deploy(found.client, "idle")
    wait_until(lambda: found.client.functions.get("idle")["ready_instances"] == 0, "the function is idle", LONGEST_SEC)
    with closing(sqlite3.connect(found.folder / "data" / "sless.db", timeout=60)) as database, database:
        for number in range(1, count):
            _copy(database, f"idle{number}")
        database.execute("UPDATE revisions SET value = value + 1 WHERE name = 'routes'")
    wait_until(lambda: len(found.kube.list("Deployment")) == count, "each function has a Deployment", LONGEST_SEC)


def _copy(database: sqlite3.Connection, name: str) -> None:
    """Copies the function `idle`, its version and its trigger."""
    workload_id = new_id()
    _copy_row(database, "workloads", {"name": "idle"}, {"id": workload_id, "name": name})
    (known,) = database.execute("SELECT id FROM workloads WHERE name = 'idle'").fetchone()
    _copy_row(database, "versions", {"workload_id": known}, {"id": new_id(), "workload_id": workload_id})
    _copy_row(database, "triggers", {"name": "idle"}, {"id": new_id(), "name": name, "function_ref": name})


def _copy_row(database: sqlite3.Connection, table: str, of: dict[str, str], changes: dict[str, str]) -> None:
    cursor = database.execute(f"SELECT * FROM {table} WHERE {' AND '.join(f'{key} = ?' for key in of)}", tuple(of.values()))
    names = [name for name, *_ in cursor.description]
    row = dict(zip(names, cursor.fetchone(), strict=True)) | changes
    database.execute(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", tuple(row.values()))


def _idle(found: Cluster, count: int, effort: Effort) -> Iterator[Row]:
    """While nothing is called, built or changed."""
    watched_sec = effort.times(WATCHED_SEC)
    time.sleep(effort.times(SETTLE_SEC))
    found.kube.clear_requests()
    before = found.server.processor_sec()
    time.sleep(watched_sec)
    used = found.server.processor_sec() - before
    requests = found.kube.requests()
    detail = f"in {watched_sec} s; most frequent: {_most_frequent(requests)}"
    yield at_most(f"cluster: API requests a minute, {count} idle functions", len(requests) * 60 / watched_sec, 10, unit="", detail=detail)
    yield at_most(f"cluster: processor time of the server, {count} idle functions", 100 * used / watched_sec, 1, unit="% of a core")


def _most_frequent(requests: "list[dict[str, str]]") -> str:
    kinds = [f"{one['verb']} {one['resource']}" for one in requests]
    return ", ".join(f"{kind} ({kinds.count(kind)})" for kind in sorted(set(kinds), key=kinds.count, reverse=True)[:3]) or "none"
