"""The list of a namespace as text, and the cost of its page: the first paint must not depend on how many functions there are."""

import gzip
import re
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import cast

from sqlalchemy import Table, event, select

from sless import clock
from sless.domain.model import Kind
from sless.http.console.listing import FIRST_ROWS
from sless.store.tables import triggers, versions, workloads
from sless.usecases.overview import Overview
from sless.usecases.parts import UseCaseParts
from tests.builders import make_call_stats, make_invocation
from tests.contract.rest_harness import OPERATOR, Rest

PAGE = {"Accept": "text/html"}
MANY = 200
PAGE_BYTES = 150_000
MOST_QUERIES = 12


def functions(rest: Rest, number: int) -> None:
    """Built functions with an http trigger that are called all the time; copies of the first one, row by row."""
    rest.function("f000")
    rest.built("f000")
    rest.post("triggers", {"name": "f000", "type": "http", "function_ref": "f000"})
    others = [f"f{index:03}" for index in range(1, number)]
    first = rest.store.workloads.get(rest.namespace, Kind.FUNCTION, "f000").id
    _copy(rest, workloads, [{"id": f"id-{name}", "name": name} for name in others])
    _copy(rest, versions, [{"id": f"v-{name}", "workload_id": f"id-{name}"} for name in others])
    _copy(rest, triggers, [{"id": f"t-{name}", "name": name, "function_ref": name} for name in others])
    now, ids = clock.now(), [first, *(f"id-{name}" for name in others)]
    rest.store.history.add_history(
        [make_invocation(workload_id=item, namespace=rest.namespace, started_at=now) for item in ids],
        [make_call_stats(workload_id=item, minute=now - timedelta(minutes=ago)) for item in ids for ago in (0, 25, 50)],
        [],
    )


def _copy(rest: Rest, table: Table, changes: list[dict[str, str]]) -> None:
    with rest.store.database.write() as conn:
        row = dict(conn.execute(select(table)).mappings().one())
        conn.execute(table.insert(), [row | change for change in changes])


def page(rest: Rest) -> str:
    return rest.get(f"/funcs/{rest.namespace}", headers=PAGE).text


def processor_sec(rest: Rest) -> float:
    """The best of five, because other work on the machine slows down single ones."""
    times = []
    for _ in range(5):
        began = time.thread_time()
        page(rest)
        times.append(time.thread_time() - began)
    return min(times)


def test_the_first_paint_of_many_functions(rest: Rest) -> None:
    functions(rest, FIRST_ROWS)
    few_sec = processor_sec(rest)
    rest.delete(f"/v1/namespaces/{rest.namespace}?confirm={rest.namespace}")
    for item in rest.store.workloads.list_all([Kind.FUNCTION]):
        rest.store.workloads.remove(item.id)
    functions(rest, MANY)
    many_sec = processor_sec(rest)
    queries: list[str] = []
    event.listen(rest.store.database.engine, "before_cursor_execute", lambda *given: queries.append(given[2]))
    text = page(rest)
    assert len([query for query in queries if query.startswith(("SELECT", "WITH"))]) <= MOST_QUERIES
    assert len(re.findall('<tr role="row" data-key', text)) == FIRST_ROWS and f"{MANY} items" in text
    assert len(text) <= PAGE_BYTES and len(gzip.compress(text.encode())) <= PAGE_BYTES / 10
    assert '"slots"' not in text, "data of the rows is not sent twice"
    assert many_sec <= 3 * few_sec, f"{MANY} functions take {many_sec * 1000:.0f} ms, {FIRST_ROWS} {few_sec * 1000:.0f} ms"


def test_the_first_rows_are_those_of_the_whole_list(rest: Rest) -> None:
    for name, kind in (("b", "function"), ("a", "service"), ("d", "job"), ("c", "job")):
        rest.function(name, kind)
    overview = Overview(cast(UseCaseParts, SimpleNamespace(store=rest.store)))
    every = [item.name for item in overview.list(rest.namespace)]
    assert every == ["a", "b", "c", "d"]
    for count in (1, 2, 3, 4, 9):
        items, total = overview.first(rest.namespace, count)
        assert ([item.name for item in items], total) == (every[:count], 4)


def test_funcs_as_text(rest: Rest) -> None:
    rest.function(description="x")
    rest.function("web", "service")
    rest.built()
    rest.post("triggers", {"name": "tick", "type": "cron", "function_ref": "hello", "schedule": "*/5 * * * *"})
    rest.post(
        "triggers",
        {"name": "in", "type": "event", "function_ref": "hello", "queue": "orders", "amqp_url": "amqp://mq.example.org", "enabled": False},
    )
    rest.post("jobs", {"name": "job", "function_ref": "hello"})
    text = rest.get("/funcs").text
    blocks = text.split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == ["hello", "web", "job", "total 3: 1 function, 1 service, 1 job"]
    for shown in (
        "phase",
        "Ready",
        "version 1",
        "*/5 * * * * UTC",
        "orders (off)",
        "runtime",
        "python3.11",
        "created",
        "built",
        f"/fn/{rest.namespace}/web",
    ):
        assert shown in text
    named = ["kind", "runtime", "phase", "active", "url", "schedule", "created", "built", "message"]
    assert [[line.split()[0] for line in block.splitlines()[1:] if "queue" not in line] for block in blocks[:-1]] == [named] * 3
    columns = {line.index(line.split(maxsplit=1)[1]) for block in blocks[:-1] for line in block.splitlines()[1:]}
    assert len(columns) == 1
    assert rest.get("/funcs", sub=None).json["code"] == "token_missing"
    assert rest.get("/funcs", sub="bob").text == "total 0\n"
    assert "hello" in rest.get(f"/funcs?ns={rest.namespace}", sub=OPERATOR).text
    assert rest.get(f"/funcs?ns={rest.namespace}", sub="bob").status_code == 403
    assert rest.get("/funcs?ns=nope", sub=OPERATOR).status_code == 404


def test_active_resources_come_first(rest: Rest) -> None:
    for name in ("aaa", "bbb"):
        rest.function(name)
    rest.built("bbb")
    blocks = rest.get(f"/funcs/{rest.namespace}").text.split("\n\n")
    assert [block.splitlines()[0] for block in blocks[:2]] == ["bbb", "aaa"]
