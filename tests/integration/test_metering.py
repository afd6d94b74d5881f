"""Usage of a real server equals what its tenant called, whatever happens to the server in between."""

import random
import time
from collections.abc import Callable

import pytest

from tests.services.product import Product, Tenant, wait_until

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

HANDLER = "import time\n\ndef handle(event):\n    time.sleep(event['sec'])\n    return 'x' * 1000\n"
MEMORY_MB = 256
GB = MEMORY_MB / 1024
MARGIN_SEC = 0.05
"""Rounding of the answer, and clocks of processes."""


class Bill:
    """The calls made: seconds that handlers slept (the least that may be billed), and that their callers waited (the most)."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.calls = 0
        self.least = {"run_gb_seconds": 0.0, "gb_seconds": 0.0}
        self.most = dict(self.least)

    def add(self, slept_sec: float, waited_sec: float, *, run: bool) -> None:
        self.calls += 1
        for name in self.least:
            if run or name == "gb_seconds":
                self.least[name] += slept_sec * GB
                self.most[name] += (waited_sec + MARGIN_SEC) * GB

    def timed(self, work: Callable[[], object], slept_sec: float, *, run: bool) -> None:
        began = time.monotonic()
        work()
        self.add(slept_sec, time.monotonic() - began, run=run)

    def usage(self) -> dict[str, float]:
        rows = self.tenant.get("usage/days").json()
        return {name: sum(row[name] for row in rows) for name in ("calls", "errors", "sent_bytes", "instance_gb_seconds", *self.least)}

    def check(self) -> None:
        wait_until(lambda: self.usage()["calls"] >= self.calls, "all calls are counted")
        found = self.usage()
        assert (found["calls"], found["errors"]) == (self.calls, 0)
        for name, least in self.least.items():
            assert least - MARGIN_SEC <= found[name] <= self.most[name], name


@pytest.mark.parametrize("seed", range(2))
def test_usage_is_complete_across_kill_9_and_stops(restartable: Product, its_tenant: Tenant, seed: int) -> None:
    rng = random.Random(seed)
    product, tenant = restartable, its_tenant
    began = time.monotonic()
    path = tenant.deploy("warm", HANDLER, memory_mb=MEMORY_MB)
    tenant.deploy("once", HANDLER, http=False, memory_mb=MEMORY_MB)
    bill = Bill(tenant)
    for number, fate in enumerate(rng.sample(["worker", "both", "stop", "none"], 4)):
        for _ in range(rng.randint(2, 4)):
            sec = rng.uniform(0.0, 0.3)
            bill.timed(lambda: call(tenant, path, sec), sec, run=False)  # noqa: B023 - called at once
        sec = rng.uniform(0.0, 0.3)
        bill.timed(lambda: call(tenant, "functions/once/invoke", sec), sec, run=True)  # noqa: B023
        name = f"work-{number}"
        bill.timed(lambda: run_job(tenant, name, sec), sec, run=True)  # noqa: B023
        bill.check()
        end(product, fate)
        bill.check()
    assert bill.usage()["sent_bytes"] >= 1000 * bill.calls * 0.5, "jobs send nothing"
    # One instance runs from its start on; it is not counted while no server observes it, because it ends with its server.
    assert 0 < bill.usage()["instance_gb_seconds"] <= (time.monotonic() - began) * GB


def call(tenant: Tenant, path: str, sec: float) -> None:
    answer = tenant.post(path, {"sec": sec})
    assert (answer.status_code, len(answer.text)) == (200, 1000), answer.text


def run_job(tenant: Tenant, name: str, sec: float) -> None:
    tenant.create(name, "job", event_json=f'{{"sec": {sec}}}', run_id=1, memory_mb=MEMORY_MB)
    assert tenant.upload(name, HANDLER, "job").status_code == 202
    assert tenant.ended_job(name)["phase"] == "Succeeded"


def end(product: Product, fate: str) -> None:
    """Ends the server as `fate` says, and starts it again."""
    match fate:
        case "worker":
            worker = product.worker
            product.kill(worker=True)
            wait_until(lambda: product.worker not in (0, worker), "another worker")
        case "both":
            product.kill(master=True, worker=True)
            wait_until(lambda: product.place.processes() == [], "all processes have ended", 40)
            product.start()
        case "stop":
            assert product.end() == 0
            product.start()
    product.await_ready()
