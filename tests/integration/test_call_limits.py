"""Limits of calls of a tenant: per minute, and the size of requests. Both paths of calls."""

import json
from dataclasses import replace

import pytest

from sless.domain.limits import LimitName
from sless.errors import Code
from tests.proxykit.fakes import NAMESPACE
from tests.proxykit.plugin import Serve, serve, upstream_of
from tests.proxykit.server import SETTINGS
from tests.proxykit.upstream import answering

__all__ = ["serve", "upstream_of"]


def test_calls_per_minute_are_limited_and_refused_ones_leave_no_record(serve: Serve) -> None:
    front = serve(answering(), settings=replace(SETTINGS, limit_calls_per_minute=3))
    assert [front.call().status for _ in range(4)] == [200, 200, 200, 429]
    refused = front.call()
    error = json.loads(refused.body)
    assert error["code"] == refused.header("x-sless-error") == "too_many_requests"
    assert "limit calls_per_minute " in error["error"] and "at most 3" in error["error"]
    assert 1 <= int(refused.header("retry-after") or 0) <= 20
    assert len(front.flush().invocations) == 3
    assert list(front.plane.limits_reached.take()) == [(NAMESPACE, LimitName.CALLS_PER_MINUTE)], "the tenant will get a notice"


def test_an_operators_limit_replaces_the_default_and_a_new_snapshot_refills_nothing(serve: Serve) -> None:
    front = serve(answering(), settings=replace(SETTINGS, limit_calls_per_minute=1))
    assert front.call().status == 200
    front.limit(functions=7)
    assert front.call().status == 429
    front.limit(calls_per_minute=2)
    assert [front.call().status for _ in range(3)] == [200, 200, 429]


def test_the_limit_counts_runs_without_instances(serve: Serve) -> None:
    blocked = {"wants_instances": False, "blocked": (Code.NOT_READY, "not ready")}
    front = serve(route=blocked, settings=replace(SETTINGS, limit_calls_per_minute=1))
    assert [front.call().status for _ in range(2)] == [503, 429]


@pytest.mark.parametrize("size", [10, 70_000], ids=["fast", "slow"])
def test_request_bytes_are_limited_per_tenant(serve: Serve, size: int) -> None:
    front = serve(answering())
    front.limit(request_bytes=size)
    assert front.call(method="POST", body=b"x" * size).status == 200
    refused = front.call(method="POST", body=b"x" * (size + 1))
    assert refused.status == 413 and b"request_bytes" in refused.body
