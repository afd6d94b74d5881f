"""The audit trail: every change has its entry, in the same transaction, without secrets."""

import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sless.actor import Actor, acting
from sless.domain.model import VersionState
from sless.errors import SlessError
from sless.store import Store
from tests.builders import NAMESPACE, make_workload_spec
from tests.contract.rest_harness import OPERATOR, Rest

SECRET = "s3cr3t-value"


def trail(rest: Rest, query: str = "", **options: Any) -> list[dict[str, Any]]:
    response = rest.get(f"audit{query}", **options)
    assert response.status_code == 200, response.text
    return list(response.json)


def actions(rest: Rest, query: str = "") -> list[tuple[str, str]]:
    """Oldest first."""
    return [(entry["action"], entry["name"]) for entry in reversed(trail(rest, query))]


def test_every_change_has_an_entry(rest: Rest) -> None:
    rest.function("hello", env_vars={"KEY": SECRET})
    rest.upload("hello")
    rest.finish("hello", number=1)
    rest.patch("functions/hello", {"memory_mb": 256, "env_vars": {"KEY": SECRET, "OTHER": SECRET}})
    rest.upload("hello", files={"handler.py": "def handle(event):\n    return 2\n"})
    rest.post("functions/hello/versions/2/cancel")
    rest.upload("hello", files={"handler.py": "def handle(event):\n    return 3\n"})
    rest.finish("hello", number=3)
    rest.post("functions/hello/versions/1/activate")
    rest.post("triggers", {"name": "tick", "type": "cron", "function_ref": "hello", "schedule": "* * * * *", "event_json": SECRET})
    rest.put("triggers/tick", {"name": "tick", "type": "cron", "function_ref": "hello", "schedule": "0 * * * *"})
    fired = rest.post("triggers/tick/fire").json["id"]
    rest.delete(f"functions/hello/invocations/{fired}")
    rest.post(f"functions/hello/invocations/{fired}/retry")
    rest.delete("triggers/tick")
    rest.function("work", "job", run_id=1)
    rest.post("callback-key/rotate")
    rest.delete("functions/hello")
    rest.delete(f"/v1/namespaces/{rest.namespace}?confirm={rest.namespace}")
    assert actions(rest) == [
        ("namespace.create", rest.namespace), ("function.create", "hello"), ("function.upload", "hello"), ("function.update", "hello"),
        ("function.upload", "hello"), ("function.cancel_build", "hello"), ("function.upload", "hello"), ("function.activate", "hello"),
        ("trigger.create", "tick"), ("trigger.update", "tick"), ("function.fire", "hello"), ("function.cancel_call", "hello"),
        ("function.retry_call", "hello"), ("trigger.delete", "tick"), ("job.create", "work"), ("job.run", "work"),
        ("callback_key.rotate", rest.namespace), ("function.delete", "hello"), ("namespace.delete", rest.namespace), ("job.delete", "work"),
    ]  # fmt: skip
    assert SECRET not in rest.get("audit").text


def test_an_entry_says_who_what_and_from_where(rest: Rest) -> None:
    rest.function("hello", env_vars={"KEY": SECRET})
    answer = rest.patch(
        "functions/hello", {"memory_mb": 512, "env_vars": {"NEW": "1"}}, headers={"X-Request-Id": "req-7"},
        environ_base={"REMOTE_ADDR": "192.0.2.7"},
    )  # fmt: skip
    assert answer.status_code == 200
    entry = trail(rest, "?limit=1")[0]
    assert (entry["sub"], entry["address"], entry["request_id"], entry["kind"]) == ("alice", "192.0.2.7", "req-7", "function")
    assert entry["changes"] == [
        {"field": "memory_mb", "from": 128, "to": 512}, {"field": "env_vars.KEY"}, {"field": "env_vars.NEW"},
    ]  # fmt: skip


def test_an_operator_who_acts_for_a_tenant_is_named(rest: Rest) -> None:
    rest.function("hello")
    rest.delete("functions/hello", sub=OPERATOR)
    assert trail(rest, "?limit=1")[0]["sub"] == OPERATOR


def test_requests_that_change_nothing_or_fail_leave_no_entry(rest: Rest) -> None:
    rest.function("hello")
    before = trail(rest)
    assert rest.post("functions", {"name": "hello", "runtime": "python3.11"}).status_code == 409
    assert rest.patch("functions/hello", {"memory_mb": 128}).status_code == 200
    assert rest.patch("functions/hello", {"memory_mb": 1}).status_code == 400
    assert rest.delete("functions/hello", headers={"If-Match": '"other"'}).status_code == 412
    rest.get("functions")
    assert trail(rest) == before


def test_pages_and_filters(rest: Rest) -> None:
    for name in ("a", "b", "c"):
        rest.function(name)
    first = rest.get("audit?limit=3")
    rest_of_it = rest.get(first.headers["Link"].split(">")[0][1:])
    assert [entry["name"] for entry in first.json] == ["c", "b", "a"]
    assert [entry["action"] for entry in rest_of_it.json] == ["namespace.create"] and "Link" not in rest_of_it.headers
    assert actions(rest, "?name=b") == [("function.create", "b")]
    later = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert trail(rest, f"?since={later}") == []
    assert rest.get("audit?cursor=x").status_code == 400
    assert rest.get("audit?since=yesterday").status_code == 400


def test_builds_and_observations_are_not_changes_of_a_user(rest: Rest) -> None:
    rest.function()
    rest.upload()
    known = trail(rest)
    rest.finish("hello", number=1, state=VersionState.READY)
    assert trail(rest) == known


def test_entry_and_change_are_one_transaction(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A change that is rolled back leaves neither an entry nor a log line."""
    caplog.set_level(logging.INFO, "sless.audit")
    with acting(Actor(sub="alice", address="", request_id="r")):
        made = store.workloads.insert(NAMESPACE, "function", "hello", make_workload_spec())
        with pytest.raises(SlessError):
            store.workloads.update_spec(made.id, make_workload_spec(memory_mb=256), expected_generation=9)
        with pytest.raises(RuntimeError), store.database.write() as conn:
            from sless.domain.audit import Note
            from sless.store import audit

            audit.note(conn, Note(namespace=NAMESPACE, kind="function", name="hello", verb="test"))
            raise RuntimeError
    assert [entry.action for entry in store.audit.list_in(NAMESPACE)] == ["function.create"]
    lines = [record for record in caplog.records if record.name == "sless.audit"]
    assert [record.fields["audit"]["action"] for record in lines] == ["function.create"]  # type: ignore[attr-defined]


def test_threads_do_not_share_an_actor(store: Store) -> None:
    with acting(Actor(sub="alice", address="", request_id="r")):
        thread = threading.Thread(target=store.workloads.insert, args=(NAMESPACE, "function", "other", make_workload_spec()))
        thread.start()
        thread.join()
    assert store.audit.list_in(NAMESPACE) == []


def test_old_entries_are_removed(store: Store) -> None:
    with acting(Actor(sub="alice", address="", request_id="r")):
        for name in ("a", "b", "c"):
            store.workloads.insert(NAMESPACE, "function", name, make_workload_spec())
    now = datetime.now(UTC)
    assert store.audit.clean(now - timedelta(days=1)) == 0
    assert store.audit.clean(now + timedelta(seconds=1), batch=2) == 2
    assert [entry.name for entry in store.audit.list_in(NAMESPACE)] == ["c"]
