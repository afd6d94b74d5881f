"""Usage for billing equals what ran, whatever happens in between."""

import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from sless import clock
from sless.domain.call_sums import CallSums, RouteFacts
from sless.domain.metering import csv_of
from sless.domain.model import CallStatus, CallTrigger, Kind, VersionState
from sless.domain.ports import ObservedDeployment, ObservedRun
from sless.reconcile.decide_runs import FinishRun, RetryRun, verdict_of, verdict_of_lost
from sless.reconcile.uptime import UptimeMeter
from sless.store import Store
from tests.builders import NAMESPACE, make_endpoint, make_run, make_workload_spec
from tests.contract.conftest import MakeStore
from tests.contract.rest_harness import OPERATOR, Rest

MEMORY_MB = 512
START = datetime(2026, 3, 1, 23, 50, tzinfo=UTC)
EVER = (date(2020, 1, 1), date(2100, 1, 1))


def settle(store: Store, run_id: str, seen: ObservedRun | None, *, on_instances: bool = False) -> None:
    """As the loop of runs does."""
    run = store.runs.get(run_id)
    verdict = verdict_of(run, seen, clock.now()) if seen is not None else verdict_of_lost(run, clock.now())
    with store.runs.moves() as moves:
        match verdict:
            case RetryRun():
                values: dict[str, Any] = {"not_before": clock.now(), "message": verdict.message, "http_status": None, "quarantined": False}
                values["ran_ms"] = verdict.ran_ms
                moves.requeue(run_id, verdict.attempt, values | {"on_instances": on_instances})
            case FinishRun():
                values = {
                    "message": verdict.message, "result": None, "exit_code": None, "http_status": None, "ended_at": verdict.ended_at,
                    "ran_ms": verdict.ran_ms,
                }  # fmt: skip
                moves.finish(run_id, verdict.status, verdict.attempt or verdict.status, values | {"on_instances": on_instances})


@pytest.mark.parametrize("seed", range(5))
def test_usage_equals_what_ran(make_store: MakeStore, seed: int) -> None:
    """Runs with several attempts, noticed late (an outage) or never (kill -9), by two servers that take turns, counted twice or not;
    and an instance beside them."""
    rng = random.Random(seed)
    stores = [make_store(), make_store()]
    stores[0].tenants.ensure(NAMESPACE, "somebody")
    workload = stores[0].workloads.insert(NAMESPACE, Kind.FUNCTION, "hello", make_workload_spec(memory_mb=MEMORY_MB))
    calls, ran_sec, on_instances_sec, uptime_sec = 0, 0.0, 0.0, 0.0
    meters = [UptimeMeter(store=store) for store in stores]
    for number in range(12):
        run = make_run(
            id=f"r{number}", workload_id=workload.id, namespace=NAMESPACE, name="hello", trigger=CallTrigger.INVOKE, max_attempts=3
        )  # fmt: skip
        stores[0].runs.insert(run)
        on_instances = rng.random() < 0.3
        while stores[0].runs.get(run.id).status is CallStatus.QUEUED:
            store = rng.choice(stores)
            claim(store, run.id)
            began = clock.now()
            took = timedelta(seconds=rng.uniform(0.5, 20))
            fate = rng.choice(["succeeded", "failed", "lost"])
            if fate == "lost":
                settle(store, run.id, None)
                continue
            # It began and ended long ago: the server was away since. Its start is later than the claim, while an image was pulled.
            ended = began - timedelta(seconds=rng.uniform(0, 3))
            backdate(store, run.id, ended - took - timedelta(seconds=5))
            seen = ObservedRun(id=run.id, status=CallStatus(fate), started_at=ended - took, ended_at=ended)
            settle(rng.choice(stores), run.id, seen, on_instances=on_instances)
            on_instances_sec += took.total_seconds() if on_instances else 0.0
            ran_sec += took.total_seconds()
            if stores[0].runs.get(run.id).status is not CallStatus.QUEUED and rng.random() < 0.5:
                # A stale server repeats it: nothing is counted twice.
                assert not store.runs.finish(run.id, status=CallStatus.FAILED)
        calls += 1
        # Its instance runs all the time. The servers observe it in turns, with outages; one of them is killed from time to time.
        turn = rng.randrange(len(stores))
        meters[turn] = UptimeMeter(store=stores[turn]) if rng.random() < 0.3 else meters[turn]
        uptime_sec += rng.choice([0.5, 20.0, 600.0]) if number else 0.0
        meters[turn].note({workload.id: workload}, {workload.id: observed_instance(workload.id)}, START + timedelta(seconds=uptime_sec))
    meters[turn].write()
    rows = stores[1].metering.usage(*EVER, NAMESPACE)
    gb = MEMORY_MB / 1024
    assert sum(row.calls for row in rows) == calls
    assert sum(row.gb_seconds for row in rows) == pytest.approx(ran_sec * gb, rel=1e-4)
    assert sum(row.run_gb_seconds for row in rows) == pytest.approx((ran_sec - on_instances_sec) * gb, rel=1e-4)
    assert sum(row.instance_gb_seconds for row in rows) == pytest.approx(uptime_sec * gb)


def observed_instance(workload_id: str) -> ObservedDeployment:
    return ObservedDeployment(workload_id=workload_id, generation=1, endpoints=(make_endpoint(id="i", workload_id=workload_id),))


def claim(store: Store, run_id: str) -> None:
    with store.runs.moves() as moves:
        assert moves.claim(run_id, "holder")


def backdate(store: Store, run_id: str, started_at: datetime) -> None:
    from sqlalchemy import update

    from sless.store.tables import runs

    with store.database.write() as conn:
        conn.execute(update(runs).where(runs.c.id == run_id).values(started_at=started_at))


def test_an_outage_is_not_billed(store: Store) -> None:
    """A run of 20 s that ended while no server watched, noticed 50 s later."""
    workload = store.workloads.insert(NAMESPACE, Kind.JOB, "work", make_workload_spec(memory_mb=1024, run_id=1))
    store.runs.insert(make_run(id="r", workload_id=workload.id, namespace=NAMESPACE, kind=Kind.JOB, name="work", trigger=CallTrigger.JOB))
    claim(store, "r")
    now = clock.now()
    backdate(store, "r", now - timedelta(seconds=70))
    seen = ObservedRun(
        id="r", status=CallStatus.SUCCEEDED, started_at=now - timedelta(seconds=70), ended_at=now - timedelta(seconds=50)
    )  # fmt: skip
    settle(store, "r", seen)
    assert sum(row.run_gb_seconds for row in store.metering.usage(*EVER)) == pytest.approx(20, abs=0.1)
    ended = store.runs.get("r").ended_at
    assert ended is not None and abs((ended - now).total_seconds() + 50) < 0.1


def test_builds_and_stored_code_are_metered(rest: Rest) -> None:
    rest.function("hello")
    size = (
        rest.built("hello") and rest.store.versions.find_newest(rest.store.workloads.find_callable(rest.namespace, "hello").id).size_bytes
    )  # type: ignore[union-attr]
    rest.store.metering.note_stored()
    (row,) = rest.store.metering.usage(*EVER, rest.namespace)
    assert row.build_seconds > 0 and row.stored_bytes == size
    rest.upload("hello", files={"handler.py": "def handle(event):\n    return 2\n"})
    rest.finish("hello", number=2, state=VersionState.FAILED)
    again = rest.store.metering.usage(*EVER, rest.namespace)
    assert sum(item.build_seconds for item in again) > row.build_seconds
    rest.delete("functions/hello")
    rest.gone("hello")
    rest.store.metering.note_stored()
    assert rest.store.metering.usage(*EVER, rest.namespace) == again


def test_calls_on_instances_do_not_count_as_runs_and_bytes_are_counted() -> None:
    found = defaultdict(float)
    for on_instances in (True, False):
        facts = RouteFacts("w", "ns", "function", "hello", 512, on_instances)
        sums = CallSums(facts)
        sums.add(facts, ("http", "succeeded"), 1000.0, 700)
        sums.merge(CallSums.of_plain(sums.plain()))
        row = sums.row(("w", 1, 0))
        found[f"gb {on_instances}"], found[f"run {on_instances}"], found[f"bytes {on_instances}"] = row.gb_ms, row.run_gb_ms, row.sent_bytes
    assert found == {"gb True": 1000, "run True": 0, "bytes True": 1400, "gb False": 1000, "run False": 1000, "bytes False": 1400}


def test_usage_as_json_and_csv(rest: Rest) -> None:
    rest.function("hello")
    rest.built("hello")
    today = datetime.now(UTC).date().isoformat()
    (row,) = rest.get("/v1/operator/usage", sub=OPERATOR).json
    assert (row["namespace"], row["day"], row["calls"]) == (rest.namespace, today, 0) and row["build_seconds"] >= 0
    text = rest.get(f"/v1/operator/usage?from={today}&to={today}", sub=OPERATOR, headers={"Accept": "text/csv"})
    header, line = text.text.split("\r\n")[:2]
    assert text.mimetype == "text/csv" and header.startswith(
        "namespace,day,calls,errors,gb_seconds,run_gb_seconds,instance_gb_seconds,build_seconds"
    )
    assert line.startswith(f"{rest.namespace},{today},0,0,")
    assert rest.get("usage/days").json == [row]
    assert rest.get("/v1/operator/usage?from=2020-01-01&to=2020-01-02", sub=OPERATOR).json == []
    for query in ("from=x", "from=2026-01-02&to=2026-01-01", "from=2020-01-01&to=2026-01-01"):
        assert rest.get(f"/v1/operator/usage?{query}", sub=OPERATOR).status_code == 400
    assert csv_of([]).count("\r\n") == 1
