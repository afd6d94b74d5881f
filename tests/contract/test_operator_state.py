"""Failures and queues for operators, over REST and on the pages of the console."""

import html
import re
from datetime import timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from sqlalchemy import update

from sless import clock
from sless.domain.model import VersionState
from sless.domain.runtimes import RUNTIMES, Support
from sless.errors import SlessError
from sless.http.console.operators import ROWS
from sless.http.console.texts import LANGUAGES
from sless.reconcile.failures import note_failure
from sless.reconcile.loop import Loop, Loops
from sless.store import open_store, operator_tables, tables
from tests.builders import NAMESPACE, make_run
from tests.contract.rest_harness import OPERATOR, Rest, fields_of

BUILDS, ERRORS, QUEUES = (f"/v1/operator/{name}" for name in ("failing-builds", "reconcile-errors", "queues"))
PAGE = {"Accept": "text/html,application/xhtml+xml"}


def test_failing_builds_are_those_of_the_newest_version(rest: Rest) -> None:
    for name in ("hello", "fixed", "gone"):
        rest.function(name)
        rest.built(name, state=VersionState.FAILED, message="no module named x")
    rest.upload("fixed", files={"handler.py": "def handle(event): ...\n"})
    rest.finish("fixed", number=2)
    rest.delete("functions/gone")
    (found,) = rest.get(BUILDS, sub=OPERATOR).json
    assert (found["namespace"], found["kind"], found["name"], found["version"]) == (rest.namespace, "function", "hello", 1)
    assert found["active_version"] is None and found["message"] == "no module named x"
    rest.upload("fixed", files={"handler.py": "def handle(event): return 3\n"})
    rest.finish("fixed", number=3, state=VersionState.FAILED)
    assert [(item["name"], item["active_version"]) for item in rest.get(BUILDS, sub=OPERATOR).json] == [("fixed", 2), ("hello", None)]


def test_errors_of_loops_are_counted_per_workload(rest: Rest) -> None:
    rest.function("hello")
    workload = rest.store.workloads.find_callable(rest.namespace, "hello")
    assert workload is not None
    for text in ("first", "second"):
        note_failure(rest.store, "instances", RuntimeError(text), workload.id)
    rest.store.reconcile_errors.write()
    note_failure(rest.store, "instances", RuntimeError("third"), workload.id)
    note_failure(rest.store, "builds", ValueError("x" * 1000))
    rest.store.reconcile_errors.write()
    found = {item["loop"]: item for item in rest.get(ERRORS, sub=OPERATOR).json}
    assert (found["instances"]["name"], found["instances"]["count"]) == ("hello", 3)
    assert found["instances"]["message"] == "RuntimeError: third" and found["instances"]["first_at"] <= found["instances"]["last_at"]
    assert found["builds"]["name"] is None and len(found["builds"]["message"]) == 500
    rest.store.reconcile_errors.clean(clock.now() + timedelta(seconds=1))
    assert rest.get(ERRORS, sub=OPERATOR).json == []


def test_errors_are_kept_until_the_database_accepts_them(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/x.db", durable=False)
    store.reconcile_errors.note("builds", RuntimeError("first"))
    with pytest.raises(SlessError):
        store.reconcile_errors.write()  # no tables yet
    store.reconcile_errors.note("builds", RuntimeError("second"))
    store.migrate()
    store.reconcile_errors.write()
    (found,) = store.reconcile_errors.list(10)
    assert (found.count, found.message) == (2, "RuntimeError: second")
    store.close()


def test_a_failing_tick_is_reported() -> None:
    failures: Queue[tuple[str, str]] = Queue()

    def tick() -> None:
        raise RuntimeError("broken")

    loops = Loops([Loop(topic="cron", tick=tick, interval_sec=60)], lambda: True, lambda topic, error: failures.put((topic, str(error))))
    loops.start()
    assert failures.get(timeout=10) == ("cron", "broken")
    loops.stop()


def test_queues(rest: Rest) -> None:
    rest.function("hello")
    rest.upload("hello")
    workload = rest.store.workloads.find_callable(rest.namespace, "hello")
    assert workload is not None
    due = clock.now() - timedelta(minutes=5)
    for number in range(3):
        rest.store.runs.insert(make_run(id=f"r{number}", workload_id=workload.id, namespace=rest.namespace, not_before=due))
    found = {item["queue"]: item for item in rest.get(QUEUES, sub=OPERATOR).json}
    assert {name: item["waiting"] for name, item in found.items()} == {
        "calls": 0, "builds": 1, "runs": 3, "callbacks": 0, "notices": 0,
    }  # fmt: skip
    assert found["runs"]["due_at"].startswith(due.strftime("%Y-%m-%dT%H:%M")) and found["notices"]["due_at"] is None


def pages(rest: Rest, path: str) -> list[list[dict[str, Any]]]:
    """The items of each page, as the Link headers lead from one to the next."""
    found, following = [], path
    while following:
        answer = rest.get(following, sub=OPERATOR)
        assert answer.status_code == 200, answer.text
        found.append(answer.json)
        link = answer.headers.get("Link", "")
        following = link.partition(">")[0][1:]
    return found


@pytest.mark.parametrize("same_time", [False, True])
def test_the_lists_of_operators_have_pages(rest: Rest, same_time: bool) -> None:
    for number in range(5):
        rest.function(f"f{number}")
        rest.built(f"f{number}", state=VersionState.FAILED, message="broken")
        workload = rest.store.workloads.find_callable(rest.namespace, f"f{number}")
        assert workload is not None
        note_failure(rest.store, "instances", RuntimeError("broken"), workload.id)
        note_failure(rest.store, f"tenant use {number}", RuntimeError("broken"))
        rest.store.reconcile_errors.write()
        rest.post("/v1/operator/revoked-tokens", {"jti": f"a&b={number} ?é"}, sub=OPERATOR)
        rest.put(f"/v1/operator/allowed-code/{number}{'a' * 63}", {}, sub=OPERATOR)
    if same_time:
        with rest.store.database.write() as conn:
            errors, tokens = operator_tables.reconcile_errors, operator_tables.revoked_tokens
            for column in (tables.versions.c.ended_at, errors.c.last_at, tokens.c.revoked_at):
                conn.execute(update(column.table).values({column: clock.now()}))
    for path, size in {BUILDS: 5, ERRORS: 10, "/v1/operator/revoked-tokens": 5, "/v1/operator/allowed-code": 5}.items():
        (whole,) = pages(rest, path)
        found = pages(rest, f"{path}?limit=2")
        assert len(whole) == size and [len(page) for page in found] == [2] * (size // 2) + [1] * (size % 2)
        assert [item for page in found for item in page] == whole, path
        times = [item[name] for item in whole for name in ("failed_at", "last_at", "revoked_at") if name in item]
        assert times == sorted(times, reverse=True)
        for bad in ("-", "9" * 18 + "-x", "1-%00", *(() if path.endswith("code") else ("x", "1"))):
            assert fields_of(rest.get(f"{path}?cursor={bad}", sub=OPERATOR)) == {"cursor"}, (path, bad)


def test_the_lists_on_the_operators_page_have_further_pages(rest: Rest) -> None:
    for number in range(ROWS + 2):
        note_failure(rest.store, f"loop {number:02}", RuntimeError("broken"))
        rest.post("/v1/operator/revoked-tokens", {"jti": f"token {number:02}"}, sub=OPERATOR)
        rest.function(f"f{number:02}")
        rest.built(f"f{number:02}", state=VersionState.FAILED)
    rest.store.reconcile_errors.write()
    page = f"/funcs/{rest.get('/v1/whoami', sub=OPERATOR).json['namespace']}/operator"
    first = rest.get(page, sub=OPERATOR, headers=PAGE).text
    for name, shown in {"builds": "/functions/f{:02}", "errors": "<code>loop {:02}</code>", "tokens": "<code>token {:02}</code>"}.items():
        (link,) = re.findall(rf'href="[^"]*operator(\?{name}=[^"#]*)#{name}"', first)
        second = rest.get(page + html.unescape(link), sub=OPERATOR, headers=PAGE).text
        texts = [shown.format(number) for number in range(ROWS + 2)]
        assert [sum(text in page for text in texts) for page in (first, second)] == [ROWS, 2], name
        assert all((text in first) != (text in second) for text in texts) and f"?{name}=" not in second
    assert rest.get(f"{page}?builds=x", sub=OPERATOR, headers=PAGE).status_code == 400


def test_the_pages_of_operators(rest: Rest) -> None:
    rest.function("hello")
    rest.function("work", "job")
    rest.built("hello", state=VersionState.FAILED, message="<script>alert(1)</script>")
    note_failure(rest.store, "cron", RuntimeError("no such zone"))
    rest.store.reconcile_errors.write()
    rest.post(f"/v1/operator/tenants/{rest.namespace}/functions/hello/suspend", {"reason": "port scans"}, sub=OPERATOR)
    rest.post("/v1/operator/revoked-tokens", {"jti": "abc"}, sub=OPERATOR)
    own = rest.get("/v1/whoami", sub=OPERATOR).json["namespace"]
    shown = {
        "": [f'data-tenant="{rest.namespace}"', "1 <span", "&lt;script&gt;", "no such zone", 'data-queue="builds"', "<code>abc</code>"],
        f"/{rest.namespace}": ["port scans", 'data-workload="functions/hello"', 'name="functions"', 'data-switch="suspend"'],
    }
    for language in LANGUAGES:
        for path, texts in shown.items():
            answer = rest.get(f"/funcs/{own}/operator{path}", sub=OPERATOR, headers=PAGE | {"Accept-Language": language})
            assert answer.status_code == 200, answer.text
            assert f'<html lang="{language}"' in answer.text and "<script>alert" not in answer.text
            assert not [text for text in texts if text not in answer.text], path
    for path in shown:
        assert rest.get(f"/funcs/{rest.namespace}/operator{path}", headers=PAGE).status_code == 403
    assert "/operator" not in rest.get(f"/funcs/{rest.namespace}", headers=PAGE).text
    assert rest.get(f"/funcs/{own}/operator/sless-none", sub=OPERATOR, headers=PAGE).status_code == 404
    target = rest.get(f"/funcs/{own}/operator?tenant={rest.namespace}", sub=OPERATOR, headers=PAGE).headers["Location"]
    assert target == f"/funcs/{own}/operator/{rest.namespace}"


def test_the_list_of_tenants_has_pages(rest: Rest) -> None:
    names = [f"{NAMESPACE}{number:03}" for number in range(60)]
    for name in names:
        rest.store.tenants.ensure(name, "")
    rest.store.suspensions.set_tenant(names[58], "mining")
    own = rest.get("/v1/whoami", sub=OPERATOR).json["namespace"]

    def listed(query: str) -> list[str]:
        text = rest.get(f"/funcs/{own}/operator{query}", sub=OPERATOR, headers=PAGE).text
        return [name for name in names if f'data-tenant="{name}"' in text]

    assert (listed(""), listed(f"?after={names[49]}")) == (names[:50], names[50:])
    assert listed("?suspended=1") == [names[58]]


def test_the_console_warns_of_runtimes_past_their_end_of_life(rest: Rest) -> None:
    today = clock.now().date()
    for number, (name, runtime) in enumerate(RUNTIMES.items()):
        rest.function(f"f{number}", runtime=name)
        old = runtime.support(today) is not Support.SUPPORTED
        for path in ("", "/settings"):
            page = rest.get(f"/funcs/{rest.namespace}/functions/f{number}{path}", headers=PAGE).text
            warned = f"{name} is supported until" in page or f"{name} has not been supported since" in page
            assert ("data-support" in page and warned and runtime.end_of_life in page) == old, name
        assert (runtime.end_of_life in rest.get(f"/funcs/{rest.namespace}/new", headers=PAGE).text) == old
    assert any(runtime.support(today) is Support.END_OF_LIFE for runtime in RUNTIMES.values())
