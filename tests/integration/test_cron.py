"""Cron triggers on a running server: the real clock, kill -9 and downtime."""

import os
import signal
import sqlite3
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sless.app.database import open_encrypted
from sless.config import Settings
from sless.domain.cron import Due
from tests.services.product import Product, Tenant, wait_until

pytestmark = [pytest.mark.timeout(300)]

HANDLER = """\
import os, time

def handle(event, context):
    with open(event["marks"], "a") as file:
        file.write(event["mark"] + "\\n")
    time.sleep(event.get("sleep", 0))
    return {"trigger": context.trigger, "pid": os.getpid()}
"""


def calls(tenant: Tenant, name: str = "f") -> list[dict[str, Any]]:
    """Oldest first."""
    return list(reversed(tenant.get(f"functions/{name}/invocations").json()))


def statuses(tenant: Tenant) -> list[str]:
    return [call["status"] for call in calls(tenant)]


def cron(tenant: Tenant, tmp_path: Path, name: str = "t", sleep: float = 0, **fields: Any) -> dict[str, Any]:
    event = {"marks": str(tmp_path / "marks"), "mark": name, "sleep": sleep}
    values = {"schedule": "* * * * *", "pre_warm_seconds": 0}
    made = tenant.post("triggers", {"name": name, "type": "cron", "function_ref": "f", "event_json": event} | values | fields)
    assert made.status_code == 201, made.text
    return dict(made.json())


def marks(tmp_path: Path) -> Counter[str]:
    path = tmp_path / "marks"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def backdate(product: Product, minutes_ago: float) -> None:
    """Backdate all functions and triggers in the database. The server must be down."""
    since = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    with sqlite3.connect(product.place.data_dir / "sless.db") as connection:
        text = since.isoformat(" ", "microseconds")[:26]
        connection.execute("UPDATE triggers SET scheduled_since = ?", [text])
        connection.execute("UPDATE workloads SET created_at = ?", [text])
    connection.close()


def test_a_trigger_fires_once_per_minute_even_if_the_worker_is_killed(restartable: Product, its_tenant: Tenant, tmp_path: Path) -> None:
    tenant = its_tenant
    tenant.deploy("f", HANDLER, http=False)
    made = cron(tenant, tmp_path, sleep=2)
    other = cron(tenant, tmp_path, "other", pre_warm_seconds=60)
    due = datetime.fromisoformat(made["next_schedule_time"])
    assert timedelta() < due - datetime.now(UTC) <= timedelta(seconds=60) and due.second == 0
    wait_until(lambda: len(calls(tenant)) == 2, "both have fired", 90)
    late = datetime.now(UTC) - due
    wait_until(lambda: marks(tmp_path)["t"] >= 1, "it runs")
    os.kill(restartable.worker, signal.SIGKILL)
    restartable.await_ready()
    wait_until(lambda: statuses(tenant) == ["succeeded"] * 2, f"both have ended: {restartable.log}", 60)
    assert timedelta() <= late < timedelta(seconds=5)
    # One claim each; calls that ran when the worker was killed run again.
    assert 1 <= marks(tmp_path)["other"] <= 2 and 1 <= marks(tmp_path)["t"] <= 2
    shown = {item["name"]: item for item in tenant.get("triggers").json()}
    for name in ("t", "other"):
        assert (shown[name]["last_schedule_time"], shown[name]["last_status"]) == (made["next_schedule_time"], "succeeded")
    assert shown["other"]["next_schedule_time"] > other["next_schedule_time"]
    usage = tenant.get("usage").json()["days"][-1]
    assert usage["invocations"] == 2 and usage["gb_seconds"] > 0


def test_a_firing_claimed_before_a_kill_runs_after_the_restart(restartable: Product, its_tenant: Tenant, tmp_path: Path) -> None:
    tenant = its_tenant
    tenant.deploy("f", HANDLER, http=False)
    made = cron(tenant, tmp_path, schedule="0 0 1 1 *")
    restartable.kill(master=True, worker=True)
    store = open_encrypted(Settings(data_dir=restartable.place.data_dir))
    trigger = store.triggers.get(tenant.namespace, "t")
    due = Due(trigger_id=trigger.id, generation=trigger.generation, due_at=datetime.now(UTC) + timedelta(milliseconds=1))
    assert store.firings.claim([due])[0].run is not None
    store.close()
    restartable.start()
    wait_until(lambda: statuses(tenant) == ["succeeded"], "it runs")
    assert marks(tmp_path) == {"t": 1}
    assert calls(tenant)[0]["attempts"] == 1 and made["next_schedule_time"]


def test_downtime_is_a_miss_only_beyond_the_grace_period(restartable: Product, its_tenant: Tenant, tmp_path: Path) -> None:
    """Ten minutes of downtime, by the database: fires once within the grace period, records a miss beyond it."""
    tenant = its_tenant
    tenant.deploy("f", HANDLER, http=False)
    cron(tenant, tmp_path, "patient", misfire_grace_seconds=3600)
    minute = (datetime.now(UTC) - timedelta(minutes=5)).minute
    cron(tenant, tmp_path, "strict", schedule=f"{minute} * * * *")
    cron(tenant, tmp_path, "off", enabled=False)
    restartable.end()
    backdate(restartable, 10)
    restartable.start()
    wait_until(lambda: marks(tmp_path)["patient"] >= 1 and "missed" in statuses(tenant), "patient fires, strict is missed")
    wait_until(lambda: set(statuses(tenant)) <= {"succeeded", "missed"}, "all have ended")
    found = calls(tenant)
    missed = [call for call in found if call["status"] == "missed"]
    assert len(missed) == 1 and "over misfire_grace_seconds (60)" in missed[0]["error"]
    assert marks(tmp_path)["patient"] == len(found) - 1 <= 2 and not marks(tmp_path)["off"]
    assert tenant.get("triggers/strict").json()["last_status"] == "missed"
    metrics = tenant.get("/metrics").text
    assert 'sless_cron_firings_total{result="missed"} 1.0' in metrics and "sless_cron_delay_seconds_count" in metrics


def test_a_pre_warmed_instance_serves_calls_and_stops(tenant: Tenant, tmp_path: Path) -> None:
    tenant.deploy("f", HANDLER, http=False)
    cron(tenant, tmp_path, schedule="0 0 1 1 *")
    first = [tenant.post("functions/f/invoke", {"marks": str(tmp_path / "m"), "mark": "x"}).json()["pid"] for _ in range(2)]
    assert len(set(first)) == 2  # one process per call
    soon = (datetime.now(UTC) + timedelta(minutes=30)).minute
    assert tenant.patch("triggers/t", {"schedule": f"{soon} * * * *", "pre_warm_seconds": 3600}).status_code == 200

    def pids() -> set[int]:
        return {tenant.post("functions/f/invoke", {"marks": str(tmp_path / "m"), "mark": "x"}).json()["pid"] for _ in range(3)}

    wait_until(lambda: len(pids()) == 1, "calls go to the warm instance")
    assert tenant.get("functions/f").json()["phase"] == "Ready"
    fired = tenant.post("triggers/t/fire").json()["id"]
    call = tenant.ended_call("f", fired)
    assert f'"pid": {pids().pop()}' in call["result"] and not call["cold"]
    assert tenant.patch("triggers/t", {"enabled": False}).status_code == 200
    wait_until(lambda: len(pids()) == 3, "the instance has gone")
