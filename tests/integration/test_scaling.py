"""Instances follow the calls, on a local server: from zero, up, down, and back to zero."""

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sless.domain.durations import Durations
from tests.services.bursts import burst
from tests.services.product import Product, Tenant, running_product, wait_until

PID = "import os\ndef handle(event):\n    return os.getpid()\n"
SLOW = "import os, time\ndef handle(event):\n    time.sleep(event.get('sec', 0))\n    return os.getpid()\n"
BREAKABLE = "import os\nif os.path.exists(os.environ['FLAG']):\n    raise RuntimeError('the database is away')\n" + PID
OPERATOR = "the-operator"
IDLE = "idle: no instance is running, the next call starts one"


@pytest.fixture(scope="module")
def quick(tmp_path_factory) -> Iterator[Product]:
    durations = replace(Durations(), stable_window_sec=1.0, settle_sec=0.3)
    with running_product(tmp_path_factory.mktemp("scaling"), durations, SLESS_OPERATOR_SUBS=OPERATOR) as started:
        yield started


@pytest.fixture
def tenant(quick: Product, request: pytest.FixtureRequest) -> Iterator[Tenant]:
    made = quick.tenant(request.node.name)
    yield made
    made.leave()


def await_instances(tenant: Tenant, name: str, number: int) -> dict:
    found: dict = {}

    def reached() -> bool:
        found.update(tenant.get(f"functions/{name}").json())
        return found["ready_instances"] == number

    wait_until(reached, f"{name} has {number} ready instances", 60)
    return found


def test_a_function_scales_to_zero_and_back(tenant: Tenant) -> None:
    path = tenant.deploy("hello", PID, idle_seconds=1)
    first = tenant.get(path).json()
    idle = await_instances(tenant, "hello", 0)
    assert (idle["phase"], idle["message"]) == ("Ready", IDLE)
    answer = tenant.get(path)
    assert answer.status_code == 200 and answer.json() != first
    wait_until(lambda: len(tenant.get("functions/hello/invocations").json()) == 2, "both calls are recorded")
    assert [call["cold"] for call in tenant.get("functions/hello/invocations").json()] == [True, False]


def test_operators_see_waiting_calls(quick: Product, tenant: Tenant) -> None:
    path = tenant.deploy("one", SLOW, concurrency=1, max_instances=1)
    operator = quick.tenant(OPERATOR)

    def queue() -> dict:
        return next(item for item in operator.get("/v1/operator/queues").json() if item["queue"] == "calls")

    assert queue() == {"queue": "calls", "waiting": 0, "due_at": None}
    with ThreadPoolExecutor(3) as callers:
        answers = [callers.submit(tenant.post, path, {"sec": 3}) for _ in range(3)]
        wait_until(lambda: queue()["waiting"] == 2 and queue()["due_at"] is not None, "two calls wait")
        assert [answer.result().status_code for answer in answers] == [200] * 3
    assert queue()["waiting"] == 0


def test_a_tenant_gets_a_notice_when_its_calls_reach_a_limit(quick: Product, tenant: Tenant) -> None:
    tenant.post("ensure")
    assert tenant.call("PUT", "notifications", json={"notify_url": "https://example.invalid/hook"}).status_code == 200
    quick.tenant(OPERATOR).call("PUT", f"/v1/operator/tenants/{tenant.namespace}/limits", json={"calls_per_minute": 1})
    path = tenant.deploy("one", PID)
    wait_until(lambda: tenant.get(path).status_code == 429, "the limit is reached")

    def notices() -> list[tuple[str]]:
        with sqlite3.connect(quick.place.data_dir / "sless.db") as database:
            return database.execute("SELECT event FROM notices WHERE namespace = ?", (tenant.namespace,)).fetchall()

    wait_until(lambda: notices() == [("limit.reached",)], "the server has stored the notice")


def test_stored_calls_start_an_instance_too(tenant: Tenant) -> None:
    tenant.deploy("later", PID, idle_seconds=1)
    tenant.post("triggers", {"name": "nightly", "type": "cron", "function_ref": "later", "schedule": "0 4 1 1 *"})
    await_instances(tenant, "later", 0)
    ended = tenant.ended_call("later", tenant.invoke_later("later"))
    assert (ended["status"], ended["cold"]) == ("succeeded", True)
    warm = tenant.ended_call("later", tenant.invoke_later("later"))
    assert (warm["status"], warm["cold"], warm["result"]) == ("succeeded", False, ended["result"])
    await_instances(tenant, "later", 0)
    fired = tenant.ended_call("later", tenant.post("triggers/nightly/fire").json()["id"])
    assert (fired["status"], fired["cold"], fired["trigger"]) == ("succeeded", True, "cron")


def test_a_burst_from_zero_and_down_under_a_small_load(tenant: Tenant) -> None:
    path = tenant.deploy("burst", SLOW, idle_seconds=1, concurrency=20, max_instances=4)
    await_instances(tenant, "burst", 0)
    answers = burst(tenant, path, 200, sec=0.5)
    assert Counter(status for status, _ in answers) == {200: 200}
    assert len({body for _, body in answers}) == 4
    assert await_instances(tenant, "burst", 4)["max_instances"] == 4
    stop, failures, served = threading.Event(), [], Counter[str]()

    def trickle() -> None:
        while not stop.wait(0.02):
            answer = tenant.post(path, {"sec": 0.05})
            served[answer.text] += 1
            failures.extend([answer.text] if answer.status_code != 200 else [])

    callers = [threading.Thread(target=trickle) for _ in range(2)]
    for caller in callers:
        caller.start()
    try:
        await_instances(tenant, "burst", 1)
        time.sleep(0.5)  # surplus instances are draining meanwhile
    finally:
        stop.set()
        for caller in callers:
            caller.join()
    assert failures == [] and sum(served.values()) > 20
    await_instances(tenant, "burst", 0)


def test_a_long_call_outlives_its_instances_scale_down(tenant: Tenant) -> None:
    path = tenant.deploy("long", SLOW, idle_seconds=1, concurrency=1, max_instances=2)
    answers: list[tuple[int, str]] = []
    caller = threading.Thread(target=lambda: answers.extend(burst(tenant, path, 2, sec=3.5)))
    caller.start()
    await_instances(tenant, "long", 2)
    caller.join()
    assert [status for status, _ in answers] == [200, 200]
    await_instances(tenant, "long", 0)


def test_a_failed_start_answers_all_waiting_calls(tenant: Tenant, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    path = tenant.deploy("breakable", BREAKABLE, idle_seconds=1, env_vars={"FLAG": str(flag)})
    await_instances(tenant, "breakable", 0)
    flag.touch()
    began = time.monotonic()
    answers = burst(tenant, path, 20)
    assert time.monotonic() - began < 15, "calls waited for an instance (30 s)"
    assert {status for status, _ in answers} == {503}
    assert all("the database is away" in body for _, body in answers)
    failed = tenant.settled("breakable")
    assert failed["phase"] == "Failed" and "the database is away" in failed["message"]
    flag.unlink()
    wait_until(lambda: tenant.get(path).status_code == 200, "it works again", 60)
    assert tenant.settled("breakable")["phase"] == "Ready"


def test_a_minimum_keeps_running_and_a_service_may_have_none(tenant: Tenant) -> None:
    tenant.deploy("always", PID, idle_seconds=1, min_instances=2)
    await_instances(tenant, "always", 2)
    path = tenant.deploy("site", PID, kind="service", min_instances=0, idle_seconds=1)
    wait_until(lambda: tenant.get("services/site").json()["ready_instances"] == 0, "the service is idle")
    assert tenant.get("services/site").json()["message"] == IDLE and tenant.get(path).status_code == 200
    assert tenant.get("functions/always").json()["ready_instances"] == 2
    assert tenant.patch("functions/always", {"min_instances": 0}).status_code == 200
    await_instances(tenant, "always", 0)


def test_stored_calls_survive_a_kill_9_while_calls_wait(restartable: Product, its_tenant: Tenant) -> None:
    product, tenant = restartable, its_tenant
    slow_start = "import time\ntime.sleep(3)\n" + PID
    path = tenant.deploy("slow", slow_start, idle_seconds=1)
    await_instances(tenant, "slow", 0)
    later = [tenant.invoke_later("slow", {"n": number}) for number in range(3)]
    waiting = [threading.Thread(target=_call_and_lose, args=(tenant, path)) for _ in range(3)]
    for caller in waiting:
        caller.start()
    wait_until(lambda: "sless_waiting_calls 0.0" not in product_metrics(product), "calls wait")
    product.kill(master=True, worker=True)
    for caller in waiting:
        caller.join()
    product.start()
    assert tenant.get(path).status_code == 200
    assert [tenant.ended_call("slow", item)["status"] for item in later] == ["succeeded"] * 3
    await_instances(tenant, "slow", 0)


def _call_and_lose(tenant: Tenant, path: str) -> None:
    with pytest.raises(OSError):
        tenant.get(path)


def product_metrics(product: Product) -> str:
    return product.tenant("metrics").get("/metrics").text


def test_idle_functions_cost_no_processes(restartable: Product, its_tenant: Tenant) -> None:
    product, tenant = restartable, its_tenant
    tenant.deploy("f0", PID, idle_seconds=1)
    await_instances(tenant, "f0", 0)
    product.end()
    _copy_rows(product.place.data_dir / "sless.db", tenant.namespace, 200)
    product.start()
    wait_until(lambda: tenant.get("functions/f199").json()["phase"] == "Ready", "200 functions are Ready")
    found = tenant.get("functions").json()
    assert {(item["phase"], item["ready_instances"], item["message"]) for item in found} == {("Ready", 0, IDLE)}
    assert len(found) == 200 and tenant.get(f"/fn/{tenant.namespace}/f199").status_code == 200
    wait_until(lambda: tenant.get("functions/f199").json()["ready_instances"] == 0, "idle again")
    server_processes = 5  # master, worker, writer of the history, and a guard each of instances and of builds
    assert len(product.place.processes()) <= server_processes


def _copy_rows(database: Path, namespace: str, number: int) -> None:
    """More functions like f0, with its version and trigger."""
    named = "name = 'f0' AND namespace = :namespace"
    with sqlite3.connect(database) as connection:
        for index in range(1, number):
            changes = {
                "workloads": {"id": "id || :n", "name": "'f' || :n"},
                "versions": {"id": "id || :n", "workload_id": "workload_id || :n"},
                "triggers": {"id": "id || :n", "name": "'f' || :n", "function_ref": "'f' || :n"},
            }
            for table, values in changes.items():
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                chosen = ", ".join(values.get(column, column) for column in columns)
                first = f"workload_id = (SELECT id FROM workloads WHERE {named})" if table == "versions" else named
                connection.execute(
                    f"INSERT INTO {table} SELECT {chosen} FROM {table} WHERE {first}", {"n": str(index), "namespace": namespace}
                )
    connection.close()


def test_memory_of_the_machine_is_shared(start_product) -> None:
    product = start_product(SLESS_MAX_MEMORY_MB="300")
    tenant = product.tenant("memory")
    first = tenant.deploy("first", PID, memory_mb=100)
    second = tenant.deploy("second", PID, memory_mb=100)
    assert tenant.get(first).status_code == 200  # so that `second` was called longest ago
    always = tenant.deploy("always", PID, memory_mb=200, min_instances=1)
    wait_until(lambda: tenant.get("functions/second").json()["ready_instances"] == 0, "second made room")
    assert tenant.get("functions/first").json()["ready_instances"] == 1
    assert tenant.get(second).status_code == 200  # `first` makes room
    wait_until(lambda: tenant.get("functions/first").json()["ready_instances"] == 0, "first made room")
    tenant.create("large", memory_mb=200)
    tenant.post("triggers", {"name": "large", "type": "http", "function_ref": "large"})
    tenant.upload("large", PID)
    failed = tenant.settled("large")
    reason = "not enough memory for another instance: it needs 200 MB, and instances have"
    assert failed["phase"] == "Failed" and reason in failed["message"], failed
    refused = tenant.get(f"/fn/{tenant.namespace}/large")
    assert (refused.status_code, refused.json()["code"]) == (503, "no_instances") and reason in refused.json()["error"]
    assert tenant.get(always).status_code == 200
    assert tenant.patch("functions/always", {"min_instances": 0, "idle_seconds": 1}).status_code == 200
    wait_until(lambda: tenant.get(f"/fn/{tenant.namespace}/large").status_code == 200, "there is room now", 60)
