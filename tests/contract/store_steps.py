"""Steps shared by the store tests."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from sless.domain.model import CallStatus, Version, VersionState, Workload
from sless.ids import new_id
from sless.store import Store

Result = TypeVar("Result")


def at_once(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Runs each call in its own thread, all released at once; raises an exception of any of them."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Result]) -> Result:
        barrier.wait(timeout=10)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(timeout=60) for future in [pool.submit(run, call) for call in calls]]


def upload(store: Store, workload: Workload, **changes: object) -> Version:
    values: dict[str, object] = {
        "sha256": "a" * 64,
        "code_hash": None,
        "runtime": "python3.11",
        "entrypoint": "handler.handle",
        "code_key": f"{workload.id}/{new_id()}.zip",  # every upload has its own blob
        "size_bytes": 100,
        "build_env": {},
    }
    return store.versions.insert(workload.id, **(values | changes))  # type: ignore[arg-type]


def claim_run(store: Store, run_id: str, holder: str, version: int | None = None) -> bool:
    with store.runs.moves() as moves:
        return moves.claim(run_id, holder, version)


def requeue_run(store: Store, run_id: str, not_before: datetime, message: str, **changes: Any) -> bool:
    """`changes`: `attempt` (how the attempt ended), `http_status` and `quarantined`."""
    attempt = changes.pop("attempt", CallStatus.FAILED)
    values = {"not_before": not_before, "message": message, "http_status": None, "quarantined": False} | changes
    with store.runs.moves() as moves:
        return moves.requeue(run_id, attempt, values)


def build(store: Store, workload: Workload, state: VersionState = VersionState.READY, message: str = "", **changes: object) -> Version:
    """Uploads and builds; returns the resulting version."""
    version = upload(store, workload, **changes)
    assert store.versions.claim(version.id, "builder")
    assert store.versions.finish(version.id, state=state, message=message, artifact="")
    return store.versions.get(workload.id, version.number)
