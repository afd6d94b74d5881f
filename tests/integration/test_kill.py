"""kill -9 of the gunicorn master, the worker or both, and graceful stops, during calls, jobs, builds and uploads."""

import contextlib
import http.client
import os
import signal
import socket
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.services.product import Product, Tenant, answers, wait_until, zip_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("kill")]

HANDLER = """\
import os, time

def handle(event):
    with open(event["marks"], "a") as file:
        file.write(event["mark"] + "\\n")
    time.sleep(event.get("sleep", 0))
    return event["mark"]
"""
SLOW_IMPORT = "import time\ntime.sleep(4)\n" + HANDLER


@dataclass
class Scene:
    """A tenant with a function on instances, a function with one run per call, and a file to which every attempt writes its mark."""

    product: Product
    tenant: Tenant
    marks_file: Path
    path: str

    def event(self, mark: str, sleep: float = 0) -> dict[str, Any]:
        return {"marks": str(self.marks_file), "mark": mark, "sleep": sleep}

    def marks(self) -> Counter[str]:
        return Counter(self.marks_file.read_text().split()) if self.marks_file.exists() else Counter()

    def job(self, name: str, sleep: float = 0) -> None:
        self.tenant.create(name, "job", event_json=self.event(name, sleep), run_id=1, timeout_sec=60)
        assert self.tenant.upload(name, HANDLER, "job").status_code == 202

    def later(self, name: str, mark: str, sleep: float = 0) -> str:
        return self.tenant.invoke_later(name, self.event(mark, sleep))


@pytest.fixture
def scene(restartable: Product, its_tenant: Tenant, tmp_path: Path) -> Scene:
    path = its_tenant.begin_deploy("warm", HANDLER, timeout_sec=60)
    its_tenant.deploy("once", HANDLER, http=False, timeout_sec=60)
    assert its_tenant.settled("warm")["phase"] == "Ready"
    return Scene(restartable, its_tenant, tmp_path / "marks", path)


class RunningCall(threading.Thread):
    """A synchronous call in a thread; `outcome` is its HTTP status or the name of the exception."""

    def __init__(self, scene: Scene, path: str, mark: str, sleep: float) -> None:
        super().__init__()
        self._ask = lambda: scene.tenant.post(path, scene.event(mark, sleep))
        self.outcome: object = None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._ask().status_code
        except requests.RequestException as error:
            self.outcome = type(error).__name__


@contextlib.contextmanager
def half_an_upload(tenant: Tenant) -> Iterator[None]:
    """An upload with half of its body sent."""
    data = zip_of({"handler.py": HANDLER, "noise": os.urandom(3 << 20)})
    parts = urllib.parse.urlsplit(tenant.product.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.putrequest("POST", f"/v1/namespaces/{tenant.namespace}/functions/warm/upload")
    for name, value in (("Authorization", f"Bearer {tenant.token}"), ("Content-Type", "application/zip"), ("Content-Length", len(data))):
        connection.putheader(name, str(value))
    connection.endheaders(data[: len(data) // 2])
    try:
        yield
    finally:
        connection.close()


def is_free(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    try:
        with socket.create_server((parts.hostname, parts.port)):
            return True
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("victims", ["master", "worker", "both"])
def test_kill_9_during_calls_jobs_builds_and_uploads(scene: Scene, victims: str) -> None:
    product, tenant = scene.product, scene.tenant
    job_started, later_started = "job-runs", "later-once"
    scene.job(job_started, sleep=3)
    once = scene.later("once", later_started, sleep=3)
    warm = scene.later("warm", "later-warm", sleep=3)
    calls = [RunningCall(scene, scene.path, "sync", 30), RunningCall(scene, "functions/once/invoke", "sync-once", 30)]
    assert tenant.upload("warm", SLOW_IMPORT).status_code == 202
    wait_until(lambda: tenant.get("functions/warm/versions/2").json()["state"] == "building", "the build is running")
    wait_until(lambda: set(scene.marks()) >= {job_started, later_started, "later-warm", "sync", "sync-once"}, "everything is running")
    with half_an_upload(tenant):
        # Accepted just before the kill: in the database, but not started.
        last = scene.later("once", "last")
        scene.job("job-last")
        product.kill(master=victims != "worker", worker=victims != "master")
        for call in calls:
            call.join(60)
        # A worker that has lost its master shuts down gracefully, so calls that do not finish in time get 503.
        assert [call.outcome for call in calls] == ([503] if victims == "master" else ["ConnectionError"]) * 2
        if victims != "worker":
            wait_until(lambda: product.place.processes() == [], "all processes of the data folder have ended", 40)
            wait_until(lambda: is_free(product.url), "the port is free")
            product.start()
    product.await_ready()

    after = tenant.settled("warm", version=2)
    assert (after["phase"], after["active_version"], after["latest_version"]) == ("Ready", 2, 2), "accepted and built; no half upload"
    for name, call_id in (("once", once), ("warm", warm), ("once", last)):
        ended = tenant.ended_call(name, call_id)
        assert ended["status"] == "succeeded", ended
    for name in (job_started, "job-last"):
        job = tenant.ended_job(name)
        assert (job["phase"], job["message"]) == ("Succeeded", f'"{name}"'), job
    assert tenant.post(scene.path, scene.event("again")).text == "again"
    marks = scene.marks()
    assert marks["sync"] == marks["sync-once"] == 1, "a synchronous call is never made twice"
    assert all(marks[mark] >= 1 for mark in (job_started, later_started, "later-warm", "last", "job-last")), marks

    assert product.end() == 0
    assert product.place.processes() == []
    product.start()
    assert tenant.post(scene.path, scene.event("once-more")).text == "once-more"
    assert scene.marks() == marks + Counter(["once-more"]), "the next start runs none of them again"


def test_an_interrupted_upload_leaves_no_files(scene: Scene) -> None:
    with half_an_upload(scene.tenant):
        assert scene.tenant.get("functions/warm").status_code == 200
    staging = scene.product.place.data_dir / "uploads"
    wait_until(lambda: list(staging.iterdir()) == [], "the staging folder is empty")
    assert len(scene.tenant.get("functions/warm/versions").json()) == 1


def test_hup_neither_repeats_nor_loses_calls(scene: Scene) -> None:
    tenant, product = scene.tenant, scene.product
    worker = product.worker
    ids = [("once" if number % 3 else "warm", scene.later("once" if number % 3 else "warm", f"m{number}", 0.3)) for number in range(12)]
    scene.job("job-hup", sleep=1)
    stop, statuses = threading.Event(), Counter()

    def keep_calling() -> None:
        while not stop.is_set():
            statuses[tenant.post(scene.path, scene.event("sync")).status_code] += 1

    caller = threading.Thread(target=keep_calling)
    caller.start()
    try:
        wait_until(lambda: len(scene.marks()) >= 4, "some calls are running")
        product.process.send_signal(signal.SIGHUP)
        wait_until(lambda: product.worker not in (0, worker), "another worker", 60)
        wait_until(lambda: answers(f"{product.url}/readyz"), "ready again", 60)
    finally:
        stop.set()
        caller.join(60)
    assert set(statuses) == {200}, statuses
    for name, call_id in ids:
        assert tenant.ended_call(name, call_id)["status"] == "succeeded"
    assert tenant.ended_job("job-hup")["phase"] == "Succeeded"
    marks = scene.marks()
    assert marks.pop("sync") == statuses[200]
    assert marks == Counter([*(f"m{number}" for number in range(12)), "job-hup"])


def test_sigterm_drains_running_calls(scene: Scene) -> None:
    calls = [RunningCall(scene, scene.path, "instance", 1), RunningCall(scene, "functions/once/invoke", "single", 1)]
    wait_until(lambda: set(scene.marks()) == {"instance", "single"}, "both run")
    assert {scene.product.process.pid, scene.product.worker} < set(scene.product.place.processes())
    began = time.monotonic()
    assert scene.product.end() == 0
    assert time.monotonic() - began < 25
    for call in calls:
        call.join(60)
    assert [call.outcome for call in calls] == [200, 200]
    assert scene.product.place.processes() == []
    assert is_free(scene.product.url)
    assert not scene.product.state_file.exists()


def test_calls_that_outlast_the_shutdown_get_503(scene: Scene) -> None:
    asked: list[requests.Response] = []
    targets = (scene.path, "functions/once/invoke")
    threads = [threading.Thread(target=lambda path=path: asked.append(scene.tenant.post(path, scene.event("m", 60)))) for path in targets]
    for thread in threads:
        thread.start()
    wait_until(lambda: scene.marks()["m"] == 2, "both run")
    assert scene.product.end() == 0
    for thread in threads:
        thread.join(60)
    assert [answer.status_code for answer in asked] == [503, 503], [answer.text for answer in asked]
    for answer in asked:
        assert answer.json()["code"] == "shutting_down" and answer.headers["Retry-After"]


def test_without_failures_each_call_and_job_runs_once(scene: Scene) -> None:
    tenant = scene.tenant
    ids = [("once" if number % 2 else "warm", scene.later("once" if number % 2 else "warm", f"m{number}")) for number in range(20)]
    scene.job("job-single")
    for name, call_id in ids:
        assert tenant.ended_call(name, call_id)["status"] == "succeeded"
    assert tenant.ended_job("job-single")["phase"] == "Succeeded"
    assert tenant.patch("jobs/job-single", {"run_id": 1}).status_code == 200, "the same number runs nothing"
    assert tenant.patch("jobs/job-single", {"run_id": 2}).status_code == 200
    wait_until(lambda: scene.marks()["job-single"] == 2, "the higher number runs it once more")
    assert tenant.ended_job("job-single")["phase"] == "Succeeded"
    assert scene.marks() == Counter([*(f"m{number}" for number in range(20)), "job-single", "job-single"])
