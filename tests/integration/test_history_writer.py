"""The process that writes history, in the real server."""

import os
import signal
from pathlib import Path

from tests.services.product import Product, Tenant, wait_until


def writer_of(product: Product) -> int:
    """0 while there is none."""
    worker = product.worker
    for task in Path(f"/proc/{worker}/task").iterdir():
        for pid in map(int, (task / "children").read_text().split()):
            if is_fork(pid, worker) or b"history_process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return 0


def executed_writer_of(product: Product) -> int:
    """0 while there is none, or until it has been executed."""
    pid = writer_of(product)
    return 0 if not pid or is_fork(pid, product.worker) else pid


def is_fork(pid: int, parent: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes() == Path(f"/proc/{parent}/cmdline").read_bytes()


def test_the_first_writer_is_a_fork_and_a_killed_one_is_replaced(restartable: Product, its_tenant: Tenant) -> None:
    """An executed one imports for as long as the rest of the server's start takes."""
    product, tenant = restartable, its_tenant
    product.end()
    product.start()
    first = writer_of(product)
    assert first and is_fork(first, product.worker)
    tenant.create("f")
    tenant.upload("f", "def handle(event):\n    return 1\n")
    tenant.settled("f")
    for killed in range(2):
        victim = writer_of(product)
        assert tenant.post("functions/f/invoke").status_code == 200
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda victim=victim: executed_writer_of(product) not in (0, victim), "another writer has been executed")
        wait_until(lambda killed=killed: len(tenant.get("functions/f/invocations").json()) == killed + 1, "every call is in the history")
