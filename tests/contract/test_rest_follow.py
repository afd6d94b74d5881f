"""Following logs, as `asgi` reads them."""

import json
from typing import Any

import pytest

from sless.domain.model import Kind, VersionState
from sless.domain.ports import FollowRequest
from sless.errors import Invalid, NotFound
from tests.builders import AT, make_invocation, make_log_line
from tests.contract.rest_harness import Rest


def request(rest: Rest, after: int | None = None, version: int | None = None, name: str = "hello", **query: str) -> FollowRequest:
    return FollowRequest(namespace=rest.namespace, kind=Kind.FUNCTION, name=name, version=version, query=query, after=after)


def write(rest: Rest, *numbers: int) -> None:
    workload = rest.store.workloads.get(rest.namespace, Kind.FUNCTION, "hello")
    lines = [make_log_line(source_id="s", seq=number, workload_id=workload.id, text=f"line {number}") for number in numbers]
    rest.store.history.add_history([], [], lines)


def texts(page: Any) -> list[str]:
    return [line.split(maxsplit=1)[1] for line in page.lines]


def test_logs_start_with_the_last_lines_and_continue(rest: Rest) -> None:
    rest.function()
    write(rest, *range(150))
    follower = rest.usecases.follow_logs(request(rest))
    first = follower.read()
    assert texts(first) == [f"line {number}" for number in range(50, 150)]
    assert first.lines[0] == rest.get("functions/hello/logs?tail=100").text.splitlines()[0]
    assert follower.read().lines == () and first.ended is None
    write(rest, 150, 151)
    again = follower.read()
    assert texts(again) == ["line 150", "line 151"] and again.after > first.after
    # Resuming from the cursor neither misses nor repeats lines.
    assert texts(rest.usecases.follow_logs(request(rest, after=first.after)).read()) == ["line 150", "line 151"]
    assert texts(rest.usecases.follow_logs(request(rest, tail="1")).read()) == ["line 151"]
    assert len(rest.usecases.follow_logs(request(rest, since=AT.isoformat())).read().lines) == 152


def test_logs_of_an_unknown_function_and_bad_parameters(rest: Rest) -> None:
    with pytest.raises(NotFound):
        rest.usecases.follow_logs(request(rest))
    rest.function()
    for query in ({"tail": "x"}, {"since": "yesterday"}):
        with pytest.raises(Invalid):
            rest.usecases.follow_logs(request(rest, **query))


def test_lines_as_json_name_their_request(rest: Rest) -> None:
    rest.function()
    workload = rest.store.workloads.get(rest.namespace, Kind.FUNCTION, "hello")
    common: Any = {"workload_id": workload.id, "namespace": rest.namespace}
    calls = [
        make_invocation(id="i1", request_id="r-1", **common),
        make_invocation(id="i2", request_id="r-2", **common | {"workload_id": "w"}),
    ]
    marks = ["i1", "i2", "i3", ""]
    lines = [make_log_line(source_id="s", seq=n, workload_id=workload.id, invocation_id=mark, text=mark) for n, mark in enumerate(marks)]
    rest.store.history.add_history(calls, [], lines)
    page = rest.usecases.follow_logs(request(rest, format="json")).read()
    expected = ["r-1", None, None, None]  # the second line claims a call of another workload, the third one that still runs
    assert [json.loads(line)["request_id"] for line in page.lines] == expected
    assert [json.loads(line) for line in rest.get("functions/hello/logs?format=json").text.splitlines()] == [*map(json.loads, page.lines)]
    assert rest.get("functions/hello/logs", headers={"Accept": "application/json"}).json == [*map(json.loads, page.lines)]


def test_the_build_log_ends_with_the_state(rest: Rest) -> None:
    rest.function()
    with pytest.raises(NotFound):
        rest.usecases.follow_build(request(rest, version=1))
    rest.upload()
    workload = rest.store.workloads.get(rest.namespace, Kind.FUNCTION, "hello")
    version = rest.store.versions.get(workload.id, 1)
    follower = rest.usecases.follow_build(request(rest, version=1))
    assert (follower.read().lines, follower.read().ended) == ((), None)
    rest.store.versions.add_log(version.id, ["one", "two"])
    page = follower.read()
    assert page.lines == ("one", "two") and page.ended is None
    rest.store.versions.add_log(version.id, ["three"])
    rest.finish("hello", state=VersionState.FAILED, message="no")
    last = follower.read()
    assert (last.lines, last.ended) == (("three",), "failed")
    assert rest.usecases.follow_build(request(rest, version=1, after=page.after)).read().lines == ("three",)
    rest.store.workloads.remove(workload.id)
    assert follower.read().ended == "removed"
