"""Asynchronous calls: accepted per second, each durable before its 202; and from accepted to ended."""

import time
from collections.abc import Iterator

from sless.client import Client
from tests.bench.client import connect, deploy, token_of
from tests.bench.effort import Effort
from tests.bench.load import POST_JSON, alternate, median, wrk
from tests.bench.places import FUNCTIONS, sless_server, temporary_folder, wait_until
from tests.bench.rows_proxy import figures
from tests.bench.table import Row, ratio

LATER = POST_JSON + 'wrk.headers["Prefer"] = "respond-async"\n'
BATCH = 500


def asynchronous(effort: Effort) -> Iterator[Row]:
    with temporary_folder() as folder, sless_server(folder, SLESS_ASYNC_PER_FUNCTION="50") as url:
        client = connect(url, folder)
        called = deploy(client, "hello", FUNCTIONS / "python", "python3.11")
        yield ended(client, effort.times(BATCH))
        client.functions.create({"name": "waits", "runtime": "python3.11"})
        later = f"{url}{client.path}/functions/waits/invoke"
        yield from accepted(called, later, f"Bearer {token_of(folder)}", effort)


def accepted(called: str, later: str, authorization: str, effort: Effort) -> Iterator[Row]:
    """The function behind `later` has no code, so calls stay queued: this measures only accepting, with a growing queue."""
    for connections in (1, 32):
        measured = alternate(
            lambda count=connections: wrk(later, connections=count, effort=effort, script=LATER, authorization=authorization),
            lambda count=connections: wrk(called, connections=count, effort=effort, script=POST_JSON),
            effort.pairs,
        )
        if measured.failed:
            raise RuntimeError(f"{measured.failed} calls failed: rates can be compared only without failures")
        detail = f"accepted {figures(median(measured.first))}; sync {figures(median(measured.second))}"
        yield ratio(f"async calls accepted / sync calls answered, {connections} connections", measured.ratio, detail=detail)


def ended(client: Client, batch: int) -> Row:
    """The time from the first accepted to the last ended call, against that of as many synchronous calls, each on one connection."""
    began = time.monotonic()
    for _ in range(batch):
        if client.functions.invoke("hello", b"{}", {"Prefer": "respond-async"}).status != 202:
            raise RuntimeError("a call was not accepted")
    wait_until(
        lambda: not any(list(client.functions.invocations("hello", status=status, limit=1)) for status in ("queued", "running")),
        "all ended",
    )
    later_sec = time.monotonic() - began
    began = time.monotonic()
    for _ in range(batch):
        client.functions.invoke("hello", b"{}")
    sync_sec = time.monotonic() - began
    detail = f"{batch / later_sec:,.0f} calls/s accepted and ended; {batch / sync_sec:,.0f} synchronous calls/s by the same client"
    return ratio(f"{batch} async calls accepted and ended / made synchronously, time", later_sec / sync_sec, detail=detail)
