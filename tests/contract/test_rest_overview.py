"""Everything in a namespace in one list."""

from datetime import timedelta
from typing import Any

from sless import clock
from sless.domain.model import CallStatus, Kind, VersionState
from sless.http.overview import overview_texts
from tests.builders import make_call_stats, make_invocation
from tests.contract.rest_harness import OPERATOR, Rest, fields_of


def by_name(rest: Rest) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in rest.get("overview").json}


def test_the_list_of_a_namespace(rest: Rest) -> None:
    rest.function(display_name="Hello")
    rest.function("web", "service")
    rest.built()
    rest.post("triggers", {"name": "tick", "type": "cron", "function_ref": "hello", "schedule": "*/5 * * * *", "enabled": False})
    rest.post("triggers", {"name": "over-http", "type": "http", "function_ref": "hello"})
    rest.post("jobs", {"name": "job", "function_ref": "hello"})
    found = by_name(rest)
    assert list(found) == ["hello", "web", "job"], "functions and services by name, then jobs"
    hello = found["hello"]
    assert (hello["kind"], hello["phase"], hello["active_version"], hello["display_name"]) == ("function", "Deploying", 1, "Hello")
    assert hello["url"].endswith(f"/fn/{rest.namespace}/hello") and found["job"]["url"] is None
    assert hello["triggers"] == [
        {"name": "over-http", "type": "http", "enabled": True},
        {"name": "tick", "type": "cron", "enabled": False, "schedule": "*/5 * * * *", "timezone": "UTC"},
    ]
    assert (hello["calls"], hello["errors"], hello["last"]) == (0, 0, None) and hello["slots"] == [[0, 0]] * 12


def test_calls_of_the_last_hour(rest: Rest) -> None:
    rest.function()
    workload = rest.store.workloads.get(rest.namespace, Kind.FUNCTION, "hello")
    now = clock.now()
    stats = [
        make_call_stats(workload_id=workload.id, namespace=rest.namespace, minute=now, calls=7, errors=2),
        make_call_stats(workload_id=workload.id, namespace=rest.namespace, minute=now - timedelta(minutes=20), calls=5, errors=0),
        make_call_stats(workload_id=workload.id, namespace=rest.namespace, minute=now - timedelta(minutes=70), calls=100, errors=100),
    ]
    call = make_invocation(workload_id=workload.id, namespace=rest.namespace, started_at=now, status=CallStatus.FAILED, http_status=500)
    rest.store.history.add_history([call], stats, [])
    item = by_name(rest)["hello"]
    assert (item["calls"], item["errors"]) == (12, 2) and item["slots"][-1] == [7, 2]
    assert [5, 0] in item["slots"] and item["slots"].index([5, 0]) in (7, 8)
    assert (item["last"]["status"], item["last"]["http_status"]) == ("failed", 500)


def test_the_texts_for_streams(rest: Rest) -> None:
    rest.function()

    def read() -> dict[str, str]:
        return overview_texts(rest.usecases, rest.settings, rest.namespace)

    before = read()
    assert list(before) == ["function/hello"] and read() == before
    rest.built(state=VersionState.FAILED, message="no such module")
    assert "no such module" in read()["function/hello"]


def test_access(rest: Rest) -> None:
    rest.function()
    assert rest.get("overview", sub="bob").status_code == 403
    assert [item["name"] for item in rest.get("overview", sub=OPERATOR).json] == ["hello"]


def test_a_schedule_in_words_with_its_next_times(rest: Rest) -> None:
    path = "/v1/schedule?schedule=30+4+*+*+1-5&timezone=Europe/Moscow"
    found = rest.get(path).json
    assert found["words"] == "at 04:30, Monday to Friday" and len(found["next"]) == 5
    assert all(moment.endswith("T01:30:00.000Z") or "T01:30:00" in moment for moment in found["next"])
    assert rest.get(path + "&count=2", headers={"Accept-Language": "ru"}).json["words"] == "в 04:30, пн – пт"
    assert fields_of(rest.get("/v1/schedule?schedule=61+*+*+*+*&timezone=Mars/Base")) == {"schedule", "timezone"}
    assert fields_of(rest.get("/v1/schedule?schedule=0+0+30+2+*")) == {"schedule"}
    assert rest.get(path, sub=None).status_code == 401
