"""Two servers sharing a PostgreSQL database, an S3 bucket and a cluster: both serve, one leads, and the leader is stopped or killed."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from sless.config import Settings
from sless.domain.durations import Durations
from sless.ids import namespace_of
from sless.store import open_store
from sless.tokens import issue_token
from tests.builders import ENCRYPTION_KEY
from tests.kube.cluster import running_cluster
from tests.services.bursts import burst
from tests.services.product import Product, Tenant, new_place, wait_until
from tests.services.s3 import ACCESS_KEY, BUCKET, SECRET_KEY

pytestmark = [pytest.mark.xdist_group("replicas"), pytest.mark.slow, pytest.mark.timeout(300)]
SECRET = "a secret that both replicas know, of 32 bytes"
HELLO = "import os\ndef handle(event):\n    print('got', event)\n    return {'got': event}\n"
SHORT = Durations(lease_sec=6.0, lease_renew_sec=1.5)
TAKEOVER_SEC = 9.0
"""A lease, and the time that a loaded machine takes."""
ROUTES_SEC = 2.0
"""Replicas read changes within this time."""


@dataclass
class Replicas:
    one: Product
    two: Product
    database_url: str

    def leader(self) -> str | None:
        store = open_store(self.database_url)
        try:
            return store.leases.holder("leader")
        finally:
            store.close()

    def leads(self, product: Product) -> bool:
        return self.leader() == holder_of(product)


def holder_of(product: Product) -> str:
    return (product.place.data_dir / "holder").read_text()


def tenant_of(product: Product, sub: str) -> Tenant:
    token = issue_token(Settings(auth_mode="secret", jwt_secret=SECRET), sub, 3600)
    return Tenant(product, token, namespace_of(sub))


@pytest.fixture(scope="module")
def replicas(tmp_path_factory, postgres_server, s3_server) -> Iterator[Replicas]:
    with (
        running_cluster() as cluster,
        new_place(tmp_path_factory.mktemp("one")) as first,
        new_place(tmp_path_factory.mktemp("two")) as second,
    ):
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sless"}})
        url = postgres_server.create_database()
        environ = {
            "SLESS_BACKEND": "kubernetes", "SLESS_KUBECONFIG": str(cluster.kubeconfig), "SLESS_DATABASE_URL": url,
            "SLESS_JWT_SECRET": SECRET, "SLESS_ENCRYPTION_KEYS": ENCRYPTION_KEY,
            "SLESS_AUTH_MODE": "secret", "SLESS_S3_ENDPOINT": f"http://{s3_server.endpoint}", "SLESS_S3_BUCKET": BUCKET,
            "SLESS_S3_ACCESS_KEY": ACCESS_KEY, "SLESS_S3_SECRET_KEY": SECRET_KEY, "SLESS_GRACEFUL_TIMEOUT_SEC": "10",
        }  # fmt: skip
        pair = Replicas(Product(first, SHORT, **environ), Product(second, SHORT, **environ), url)
        try:
            pair.one.start()
            pair.two.start()
            yield pair
        finally:
            pair.two.close()
            pair.one.close()


@dataclass
class Calls:
    """Calls a URL repeatedly from a thread inside the `with` block."""

    url: str
    done: int = 0
    failures: list[str] = field(default_factory=list)

    def __enter__(self) -> "Calls":
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with requests.Session() as session:
            while not self._stop.is_set():
                try:
                    answer = session.get(self.url, timeout=30)
                    if answer.status_code != 200:
                        self.failures.append(answer.text)
                except requests.RequestException as error:
                    self.failures.append(repr(error))
                self.done += 1
                time.sleep(0.01)


def test_calls_per_minute_are_limited_over_both_replicas(replicas):
    leader, follower = (replicas.one, replicas.two) if replicas.leads(replicas.one) else (replicas.two, replicas.one)
    there, here = tenant_of(follower, "greedy"), tenant_of(leader, "greedy")
    path = there.deploy("f", HELLO)
    store = open_store(replicas.database_url)
    try:
        store.tenants.set_limits(there.namespace, {"calls_per_minute": 600})
    finally:
        store.close()
    wait_until(lambda: any(there.get(path).status_code == 429 for _ in range(50)), "the follower refuses calls")
    # Fewer calls than its own bucket gains in that time.
    wait_until(lambda: here.get(path).status_code == 429, "the leader deducts the calls of the follower")


def test_functions_created_on_one_are_served_by_both(replicas):
    assert replicas.leads(replicas.one)
    follower = tenant_of(replicas.two, "ada")
    leader = tenant_of(replicas.one, "ada")
    path = follower.deploy("hello", HELLO)  # the follower does not build
    made_trigger = follower.post("triggers", {"name": "minutes", "type": "cron", "function_ref": "hello", "schedule": "* * * * *"})
    assert made_trigger.status_code == 201, made_trigger.text
    created = time.monotonic()
    for tenant in (follower, leader):
        wait_until(lambda: requests.get(tenant.product.url + path, timeout=30).status_code == 200, "served", ROUTES_SEC)  # noqa: B023
        assert requests.get(f"{tenant.product.url}{path}?n=1", timeout=30).json() == {"got": {"n": "1"}}
    assert time.monotonic() - created < 2 * ROUTES_SEC
    shown = [{**tenant.get("functions/hello").json(), "url": ""} for tenant in (follower, leader)]
    assert shown[0] == shown[1]


def test_a_call_on_the_follower_starts_the_first_instance(replicas):
    follower = tenant_of(replicas.two, "ada")
    path = follower.deploy("idle", HELLO, idle_seconds=1)
    await_idle(follower)
    began = time.monotonic()
    answer = requests.get(replicas.two.url + path, timeout=30)
    print(f"from zero, through the follower: {time.monotonic() - began:.2f} s")
    assert answer.status_code == 200, answer.text
    await_idle(follower)


def await_idle(tenant: Tenant) -> None:
    wait_until(lambda: tenant.get("functions/idle").json()["ready_instances"] == 0, "no instance is running", 30)


def test_changes_reach_the_other_replica_within_two_seconds(replicas):
    follower, leader = tenant_of(replicas.two, "ada"), tenant_of(replicas.one, "ada")
    path = f"/fn/{leader.namespace}/hello"
    for here, there in ((leader, follower), (follower, leader)):
        set_methods(here, ["POST"])
        began = time.monotonic()
        wait_until(lambda: requests.get(there.product.url + path, timeout=30).status_code == 405, "the new rule", ROUTES_SEC)  # noqa: B023
        set_methods(here, None)
        wait_until(lambda: requests.get(there.product.url + path, timeout=30).status_code == 200, "the old rule", ROUTES_SEC)  # noqa: B023
        assert time.monotonic() - began < 2 * ROUTES_SEC


def set_methods(tenant: Tenant, methods: list[str] | None) -> None:
    changed = tenant.patch("triggers/hello", {"methods": methods})
    assert changed.status_code == 200, changed.text


def test_calls_logs_runs_and_jobs_work_on_the_follower(replicas):
    follower, leader = tenant_of(replicas.two, "ada"), tenant_of(replicas.one, "ada")
    answers = []

    def answered() -> bool:
        """May take a moment after the change of methods in the previous test."""
        answers.append(requests.get(f"{replicas.two.url}/fn/{follower.namespace}/hello?from=two", timeout=30))
        return answers[-1].status_code == 200

    wait_until(answered, "a call on the follower", ROUTES_SEC)
    called = answers[-1].headers["X-Request-Id"]
    for tenant in (follower, leader):
        wait_until(lambda: bool(tenant.invocation("hello", called).get("logs")), "the line of the call")  # noqa: B023
        assert "got {'from': 'two'}" in tenant.get("functions/hello/logs").text
    accepted = follower.invoke_later("hello", {"later": 1})
    ended = leader.ended_call("hello", accepted)
    assert (ended["status"], ended["attempts"]) == ("succeeded", 1)
    assert follower.invocation("hello", accepted)["result"] == ended["result"]
    follower.deploy("once", "def handle(event):\n    return event['n'] + 1\n", http=False)
    assert follower.post("functions/once/invoke", {"n": 1}).json() == 2
    made = follower.post("jobs", {"name": "job", "function_ref": "once", "event_json": {"n": 41}, "run_id": 1})
    assert made.status_code == 201, made.text
    assert follower.ended_job("job")["message"] == "42"
    # Console sessions are not tied to one replica.
    for product in (replicas.one, replicas.two):
        page = requests.get(f"{product.url}/funcs", headers={"Authorization": f"Bearer {follower.token}"}, timeout=30)
        assert (page.status_code, "hello" in page.text) == (200, True)


def test_a_replica_can_cancel_calls_that_run_on_the_other(replicas):
    follower, leader = tenant_of(replicas.two, "ada"), tenant_of(replicas.one, "ada")
    follower.deploy("slow", "import time\ndef handle(event):\n    time.sleep(90)\n", http=False, timeout_sec=100)
    accepted = follower.invoke_later("slow")
    wait_until(lambda: leader.invocation("slow", accepted)["status"] == "running", "it runs", 40)
    assert follower.call("DELETE", f"functions/slow/invocations/{accepted}").status_code == 202
    assert leader.ended_call("slow", accepted, 60)["status"] == "cancelled"


def test_a_followed_log_includes_calls_to_the_other_replica(replicas):
    follower = tenant_of(replicas.two, "ada")
    with follower.get("functions/hello/logs?follow=1&tail=0", stream=True) as stream:
        assert stream.status_code == 200, stream.text
        called = requests.get(f"{replicas.one.url}/fn/{follower.namespace}/hello?seen=1", timeout=30)
        assert called.status_code == 200, called.text
        line = next(line for line in stream.iter_lines(decode_unicode=True) if "seen" in line)
    assert "got {'seen': '1'}" in line


def test_a_graceful_stop_hands_over_at_once_without_failed_calls(replicas):
    path = f"/fn/{namespace_of('ada')}/hello"
    with Calls(replicas.two.url + path) as calls:
        assert replicas.leads(replicas.one)
        replicas.one.end()
        ended = time.monotonic()
        wait_until(lambda: replicas.leads(replicas.two), "the other leads")
        assert time.monotonic() - ended < 3, "the other waited for the end of the lease"
        # Only a leader builds.
        assert tenant_of(replicas.two, "ada").deploy("second", HELLO)
    assert (calls.failures, calls.done > 50) == ([], True)
    replicas.one.start()
    assert not replicas.leads(replicas.one)


def test_a_killed_leader_is_replaced_without_losing_calls(replicas):
    """The second server leads now; calls that it accepted run on the first after the kill, each recorded once."""
    assert replicas.leads(replicas.two)
    dying, other = tenant_of(replicas.two, "ada"), tenant_of(replicas.one, "ada")
    path = f"/fn/{other.namespace}/hello"
    with Calls(replicas.one.url + path) as calls:
        accepted = [dying.invoke_later("hello", {"number": number}) for number in range(20)]
        replicas.two.kill(master=True, worker=True)
        killed = time.monotonic()
        wait_until(lambda: replicas.leads(replicas.one), "the other leads", TAKEOVER_SEC)
        took_sec = time.monotonic() - killed
        ends = [other.ended_call("hello", number, 60) for number in accepted]
        assert tenant_of(replicas.one, "ada").deploy("third", HELLO)
    assert took_sec < TAKEOVER_SEC
    assert [end["status"] for end in ends] == ["succeeded"] * 20
    assert (calls.failures, calls.done > 100) == ([], True)
    rows = other.get("functions/hello/invocations?limit=1000&trigger=invoke").json()
    assert sorted(row["id"] for row in rows if row["id"] in accepted) == sorted(accepted)
    cron = "functions/hello/invocations?limit=1000&trigger=cron"
    wait_until(lambda: other.get(cron).json(), "the next minute, at the latest", 70)
    fired = [row["started_at"][:16] for row in other.get(cron).json()]
    assert len(fired) == len(set(fired))  # once per minute, across leaders
    print(f"takeover after kill -9: {took_sec:.1f} s, {calls.done} calls meanwhile")


def test_a_leader_killed_during_a_burst_is_replaced(replicas):
    leader, other = (replicas.one, replicas.two) if replicas.leads(replicas.one) else (replicas.two, replicas.one)
    if other.process is None or other.process.poll() is not None:
        other.start()
    tenant = tenant_of(other, "ada")
    await_idle(tenant)
    leader.kill(master=True, worker=True)
    answers = burst(tenant, f"/fn/{tenant.namespace}/idle", 40)
    assert Counter(status for status, _ in answers) == {200: 40}
    leader.start()


SOAK = "TEST_SOAK_MESSAGES" in os.environ
DISTURBED = ("pause", "kill", "end") * 4 if SOAK else ("pause",)
MARKS = """import time
def handle(event, context):
    with open(event["marks"], "a") as file:
        file.write(f"{event['name']} {int(time.time() // 60)}\\n")
"""


@pytest.mark.timeout(120 + 70 * len(DISTURBED))
def test_cron_fires_once_per_minute_across_leader_failures(replicas, tmp_path):
    """The leader fails just before the minute; one paused for longer than its lease wakes up when the other leads."""
    if replicas.two.process is None or replicas.two.process.poll() is not None:
        replicas.two.start()
    tenant = tenant_of(replicas.one, "minutes")
    marks = tmp_path / "marks"
    for name, http in (("standing", True), ("single", False)):
        tenant.deploy(name, MARKS, http=http)
        event = {"marks": str(marks), "name": name}
        cron = {"name": f"{name}-cron", "type": "cron", "function_ref": name, "schedule": "* * * * *", "event_json": event}
        assert tenant.post("triggers", cron).status_code == 201
    for how in DISTURBED:
        sleep_until(55)
        leader = replicas.one if replicas.leads(replicas.one) else replicas.two
        disturb(leader, how)
        if SOAK:
            sleep_until(25)
        else:
            sleep_until(1)
            await_marks(marks)
        restore(leader, how)
    last = await_marks(marks)
    time.sleep(2 * SHORT.tick_sec)  # the former leader would fire in its next tick
    fired = Counter(marks_of(marks))
    first = min(int(mark.split()[1]) for mark in fired)
    assert fired == Counter(f"{name} {minute}" for name in ("standing", "single") for minute in range(first, last + 1))


def await_marks(marks: Path) -> int:
    """Returns this minute, once both functions have been called in it."""
    minute = int(time.time() // 60)
    wait_until(lambda: {f"{name} {minute}" for name in ("standing", "single")} <= set(marks_of(marks)), f"minute {minute}")
    return minute


def sleep_until(second: int) -> None:
    """Sleep until this second of the minute comes next."""
    time.sleep((second - time.time()) % 60)


def marks_of(marks: Path) -> list[str]:
    return marks.read_text().splitlines() if marks.exists() else []


def disturb(product: Product, how: str) -> None:
    match how:
        case "pause":
            os.kill(product.worker, signal.SIGSTOP)
        case "kill":
            product.kill(master=True, worker=True)
        case _:
            product.end()


def restore(product: Product, how: str) -> None:
    if how == "pause":
        os.kill(product.worker, signal.SIGCONT)
    else:
        product.start()
