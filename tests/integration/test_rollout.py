"""New versions, rollbacks, rebuilds and replica changes without failed calls; disabled triggers scale to zero."""

import http.client
import json
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.services.product import Product, Tenant, wait_until

CONNECTIONS = 16
PACE_SEC = 0.02
"""Pause between the calls of a connection; these tests do not need a high call rate."""


def source_of(number: int) -> str:
    return f"import os\n\ndef handle(event):\n    return {{'version': {number}, 'pid': os.getpid(), 'n': event['n']}}\n"


class Callers:
    """POSTs over keep-alive connections until `stop`, and records the results."""

    def __init__(self, tenant: Tenant, path: str) -> None:
        self._parts = urllib.parse.urlsplit(tenant.product.url)
        self._path = path
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.failures: list[str] = []
        self.versions: Counter[int] = Counter()
        self.pids: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(CONNECTIONS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def reached(self, version: int) -> bool:
        """Whether the version has answered as many calls as there are connections."""
        return self.versions[version] >= CONNECTIONS

    def _call(self, number: int) -> None:
        connection = http.client.HTTPConnection(self._parts.hostname or "", self._parts.port, timeout=60)
        while not self._stop.is_set():
            number += CONNECTIONS
            try:
                connection.request("POST", self._path, json.dumps({"n": number}), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                body = answer.read()
                self._record(answer.status, body, number)
            except (OSError, http.client.HTTPException) as error:
                with self._lock:
                    self.failures.append(repr(error))
                connection.close()
            time.sleep(PACE_SEC)
        connection.close()

    def _record(self, status: int, body: bytes, number: int) -> None:
        with self._lock:
            if status != 200:
                self.failures.append(f"{status} {body[:300]!r}")
                return
            answer = json.loads(body)
            if answer["n"] != number:
                self.failures.append(f"asked {number}, got the answer of {answer['n']}")
            self.versions[answer["version"]] += 1
            self.pids[answer["pid"]] += 1


@contextmanager
def calling(tenant: Tenant, path: str) -> Iterator[Callers]:
    callers = Callers(tenant, path)
    callers.start()
    try:
        yield callers
    finally:
        callers.stop()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_five_versions_and_a_rollback_without_failed_calls(tenant: Tenant) -> None:
    path = tenant.deploy("f", source_of(1))
    with calling(tenant, path) as callers:
        wait_until(lambda: callers.reached(1), "version 1 answers")
        for number in range(2, 7):
            assert tenant.upload("f", source_of(number)).status_code == 202
            assert tenant.settled("f", version=number)["active_version"] == number
            wait_until(lambda number=number: callers.reached(number), f"version {number} answers")
        assert tenant.post("functions/f/versions/2/activate").status_code == 200
        before = callers.versions[2]
        wait_until(lambda: callers.versions[2] >= before + 4 * CONNECTIONS, "version 2 answers again")
    assert callers.failures == []
    assert set(callers.versions) == set(range(1, 7))
    assert tenant.post(path, {"n": 0}).json()["version"] == 2
    assert tenant.get("functions/f").json()["active_version"] == 2


def test_calls_after_ready_are_served_by_the_new_instance(tenant: Tenant) -> None:
    """From the first call on."""

    def code(number: int) -> str:
        return f"import os\ndef handle(event):\n    return [{number}, os.environ.get('MARK')]\n"

    path = tenant.deploy("f", code(1))
    for number in range(2, 6):
        assert tenant.upload("f", code(number)).status_code == 202
        assert tenant.settled("f", version=number)["phase"] == "Ready"
        assert tenant.post(path).json()[0] == number
        assert tenant.patch("functions/f", {"env_vars": {"MARK": str(number)}}).status_code == 200
        assert tenant.settled("f")["phase"] == "Ready"
        assert tenant.post(path).json() == [number, str(number)]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_rebuild_without_failed_calls(tenant: Tenant) -> None:
    path = tenant.deploy("f", source_of(1))
    with calling(tenant, path) as callers:
        wait_until(lambda: callers.reached(1), "it answers")
        assert tenant.post("functions/f/rebuild").status_code == 202
        assert tenant.settled("f", version=2)["active_version"] == 2
        wait_until(lambda: len(callers.pids) == 2, "a new instance answers")
    assert callers.failures == []


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_replicas_share_calls_and_scale_without_failed_calls(tenant: Tenant) -> None:
    path = tenant.deploy("s", source_of(1), kind="service", replicas=2)
    with calling(tenant, path) as callers:
        wait_until(lambda: sum(callers.versions.values()) > 300, "enough calls")
        shares = list(callers.pids.values())
        assert len(shares) == 2 and min(shares) > 0.2 * sum(shares), shares
        assert tenant.patch("services/s", {"replicas": 3}).status_code == 200
        wait_until(lambda: len(callers.pids) == 3, "a third instance answers")
        assert tenant.patch("services/s", {"replicas": 1}).status_code == 200
        assert tenant.settled("s", "service")["phase"] == "Ready"
        pids: Counter[int] = Counter()
        wait_until(lambda: len(latest(callers, pids)) == 1, "one instance answers")
    assert callers.failures == []
    assert tenant.patch("services/s", {"replicas": 0}).status_code == 200
    wait_until(lambda: tenant.post(path, {"n": 1}).status_code == 503, "no instance is left")
    assert tenant.post(path, {"n": 1}).headers["Retry-After"]


def latest(callers: Callers, seen: "Counter[int]") -> set[int]:
    """Instances that have responded since the last check; empty until there are enough responses."""
    now = Counter(callers.pids)
    fresh = {pid for pid, count in now.items() if count > seen[pid]}
    if sum(now.values()) - sum(seen.values()) < 3 * CONNECTIONS:
        return set()
    seen.clear()
    seen.update(now)
    return fresh


def instance_pids(product: Product) -> list[int]:
    """Processes of the user's code."""
    assert product.process is not None
    others = (product.process.pid, product.worker)
    return [pid for pid in product.place.processes() if pid not in others and not is_of_the_server(pid, product.worker)]


def is_of_the_server(pid: int, worker: int) -> bool:
    """Whether it is a process that ends the children of a killed server, or writes history: a fork of the worker, or executed."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"sless.host.guard" in command or b"history_process" in command or command == Path(f"/proc/{worker}/cmdline").read_bytes()


@pytest.mark.timeout(180)
def test_a_disabled_trigger_scales_to_zero_and_back(restartable: Product, its_tenant: Tenant) -> None:
    tenant = its_tenant
    wait_until(lambda: instance_pids(restartable) == [], "instances of other tests have ended")
    path = tenant.deploy("f", source_of(1))
    assert tenant.post(path, {"n": 1}).status_code == 200
    assert len(instance_pids(restartable)) == 1
    assert tenant.patch("triggers/f", {"enabled": False}).status_code == 200
    answer = tenant.post(path, {"n": 1})
    assert (answer.status_code, answer.headers["X-Sless-Error"]) == (503, "disabled")
    assert int(answer.headers["Retry-After"]) > 0 and "disabled" in answer.json()["error"]
    wait_until(lambda: instance_pids(restartable) == [], "no process is left")
    assert tenant.post("functions/f/invoke", {"n": 2}).json()["n"] == 2, "by name it still runs, one process per call"
    wait_until(lambda: instance_pids(restartable) == [], "no process is left")
    assert tenant.patch("triggers/f", {"enabled": True}).status_code == 200
    assert tenant.post(path, {"n": 3}).json()["n"] == 3, "a call waits for the instance"
    assert tenant.call("DELETE", "triggers/f").status_code == 202
    wait_until(lambda: tenant.post(path, {"n": 1}).status_code == 404, "no URL without a trigger")
    wait_until(lambda: instance_pids(restartable) == [], "no process is left")
