"""The proxy against that of nginx with the same upstream; and in front of real functions."""

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sless.client import Client
from tests.bench.client import connect, deploy, pack
from tests.bench.effort import Effort
from tests.bench.load import POST_JSON, Pairs, Report, alternate, median, wrk
from tests.bench.places import FUNCTIONS, Served, free_port, nginx, runtime, sless_server, temporary_folder
from tests.bench.table import Row, at_least, at_most, ratio

CONNECTIONS = (1, 32, 256)
FOLLOWED_AT_ONCE = 20
"""Logs that the server lets a namespace follow."""


def figures(report: Report) -> str:
    return f"{report.requests_per_sec:,.0f} req/s, p50 {report.p50_ms:.2f} ms, p99 {report.p99_ms:.1f} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneUpstream:
    """URLs that return the same 34 bytes: of sless, of nginx's proxy_pass, and of the upstream itself."""

    sless: str
    nginx: str
    direct: str
    server: Served


@contextmanager
def one_upstream() -> Iterator[OneUpstream]:
    with temporary_folder() as folder:
        socket, direct, proxied = folder / "up.sock", free_port(), free_port()
        answer = """default_type application/json; return 200 '{"message": "hello from upstream!"}';"""
        servers = (
            f"upstream hello {{ server unix:{socket}; keepalive 64; }}"
            f"server {{ listen unix:{socket}; location / {{ {answer} }} }}"
            f"server {{ listen 127.0.0.1:{direct}; location / {{ {answer} }} }}"
            f"server {{ listen 127.0.0.1:{proxied}; location / {{ proxy_pass http://hello; proxy_http_version 1.1;"
            ' proxy_set_header Connection ""; } }'
        )
        command = [sys.executable, "-m", "tests.bench.static_server", f"unix:{socket}"]
        with nginx(folder, servers), sless_server(folder, command=command) as server:
            called = deploy(connect(server, folder), "hello", FUNCTIONS / "python", "python3.11")
            yield OneUpstream(sless=called, nginx=f"http://127.0.0.1:{proxied}/", direct=f"http://127.0.0.1:{direct}/", server=server)


def against_nginx(effort: Effort) -> Iterator[Row]:
    with one_upstream() as urls:
        rates: dict[int, float] = {}
        for connections in CONNECTIONS:
            used: list[float] = []
            measured = alternate(
                lambda count=connections, used=used: with_processor_time(urls, count, effort, used),
                lambda count=connections: wrk(urls.nginx, connections=count, effort=effort),
                effort.pairs,
            )
            if measured.failed:
                raise RuntimeError(f"{measured.failed} calls failed: rates can be compared only without failures")
            rates[connections] = statistics.median(report.requests_per_sec for report in measured.first)
            yield from nginx_rows(connections, measured, statistics.median(used))
        yield at_least("rate with 256 connections / with 32", rates[256] / rates[32], 0.9)
        added = alternate(
            lambda: wrk(urls.sless, connections=1, effort=effort),
            lambda: wrk(urls.direct, connections=1, effort=effort),
            effort.pairs,
        )
        yield at_most("added by the proxy at the median of one connection", added.added_ms, 0.3, unit="ms")


def with_processor_time(urls: OneUpstream, connections: int, effort: Effort, used_us: list[float]) -> Report:
    """Appends the processor time per call of the server, without the processes that it starts."""
    before = urls.server.processor_sec()
    report = wrk(urls.sless, connections=connections, effort=effort)
    used_us.append((urls.server.processor_sec() - before) * 1e6 / (report.requests_per_sec * effort.seconds))
    return report


def nginx_rows(connections: int, measured: Pairs, used_us: float) -> Iterator[Row]:
    name = f"proxy / nginx proxy_pass, one upstream, {connections} connections"
    detail = f"sless {figures(median(measured.first))}; nginx {figures(median(measured.second))}"
    yield at_least(name, measured.ratio, 0.45, detail=detail) if connections == 32 else ratio(name, measured.ratio, detail=detail)
    tail = f"the same, p99, {connections} connections"
    yield ratio(tail, measured.p99_ratio) if connections == 256 else at_most(tail, measured.p99_ratio, 3, unit="×")
    if connections == 32:
        yield at_most("processor time of a call in the server's main process", used_us, 45, unit="µs")


def against_the_instance(effort: Effort) -> Iterator[Row]:
    for name, code in effort.some([("python3.11", "python"), ("nodejs20", "node")]):
        with temporary_folder() as folder, sless_server(folder) as url, runtime(name, FUNCTIONS / code, folder) as instance:
            called = deploy(connect(url, folder), "hello", FUNCTIONS / code, name)
            for connections in effort.some(CONNECTIONS):
                measured = alternate(
                    lambda called=called, count=connections: wrk(called, connections=count, effort=effort, script=POST_JSON),
                    lambda instance=instance, count=connections: wrk(instance, connections=count, effort=effort, script=POST_JSON),
                    effort.pairs,
                )
                detail = f"sless {figures(median(measured.first))}; instance {figures(median(measured.second))}; failed {measured.failed}"
                yield ratio(
                    f"proxy + {name} function / the instance called directly, {connections} connections", measured.ratio, detail=detail
                )


def beside_slow_work(effort: Effort) -> Iterator[Row]:
    """p99 of calls on 8 connections while the control plane is busy, against the same minute without that work."""
    effort = effort.at_least(10)
    polled, files, followed = effort.times(50), effort.times(5_000), effort.times(100)
    with temporary_folder() as folder, sless_server(folder) as url:
        client = connect(url, folder)
        called = deploy(client, "hello", FUNCTIONS / "python", "python3.11")
        for number in range(polled):
            client.functions.create({"name": f"f{number}", "runtime": "python3.11"})
        packed = pack(many_files(folder / "big", files))
        client.services.create({"name": "big", "runtime": "python3.11", "replicas": 0})
        works: list[tuple[str, Callable[[], object]]] = [
            (f"a {files:,}-file upload", lambda: client.services.upload("big", packed)),
            ("a list of 500 invocations", lambda: list(islice(client.functions.invocations("hello", limit=500), 500))),
            (f"{polled} builds polled each second", lambda: poll_builds(client, polled)),
        ]
        for name, work in works:
            quiet = wrk(called, connections=8, effort=effort, script=POST_JSON)
            busy = under(work, lambda: wrk(called, connections=8, effort=effort, script=POST_JSON))
            yield beside(name, quiet, busy)
        users = [client, *(connect(url, folder, f"follower{number}") for number in range((followed - 1) // FOLLOWED_AT_ONCE))]
        for other in users[1:]:
            deploy(other, "hello", FUNCTIONS / "python", "python3.11")
        quiet = wrk(called, connections=8, effort=effort, script=POST_JSON)
        for number, user in enumerate(users):
            follow(user, min(FOLLOWED_AT_ONCE, followed - number * FOLLOWED_AT_ONCE))
        busy = wrk(called, connections=8, effort=effort, script=POST_JSON)
        yield beside(f"{followed} followed logs", quiet, busy)


def beside(name: str, quiet: Report, busy: Report) -> Row:
    detail = f"quiet {figures(quiet)}; busy {figures(busy)}; failed {quiet.failed + busy.failed}"
    return at_most(f"p99 during {name} / p99 without", busy.p99_ms / quiet.p99_ms, 3, unit="×", detail=detail)


def poll_builds(client: Client, count: int) -> None:
    """What `count` users request who each check their build once a second."""
    began = time.monotonic()
    for number in range(count):
        client.functions.get(f"f{number}")
        list(client.functions.versions(f"f{number}"))
    time.sleep(max(0.0, 1 - (time.monotonic() - began)))


def follow(client: Client, count: int) -> None:
    """Users who follow the log of the tenant's function until the server stops."""
    opened = threading.Semaphore(0)

    def read_all() -> None:
        with suppress(Exception), client.functions.logs("hello", follow=1, tail=1) as lines:  # the server stops before the log ends
            opened.release()
            for _ in lines:
                pass

    for _ in range(count):
        threading.Thread(target=read_all, daemon=True).start()
    if not all(opened.acquire(timeout=60) for _ in range(count)):
        raise RuntimeError(f"fewer than {count} logs could be followed")


def under(work: Callable[[], object], measure: Callable[[], Report]) -> Report:
    """Measures while `work` runs in a loop."""
    stop = threading.Event()
    failures: list[Exception] = []

    def repeat() -> None:
        try:
            while not stop.is_set():
                work()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        report = measure()
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
    return report


def many_files(folder: Path, count: int) -> Path:
    folder.mkdir()
    (folder / "handler.py").write_text((FUNCTIONS / "python" / "handler.py").read_text())
    for number in range(count - 1):
        (part := folder / f"part{number // 100}").mkdir(exist_ok=True)
        (part / f"m{number}.py").write_text(f"VALUE = {number}\n")
    return folder
