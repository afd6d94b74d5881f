"""The proxy against nginx's with the same upstream; and in front of real functions."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from tests.bench.client import connect, deploy, pack
from tests.bench.load import POST_JSON, Report, alternate, median, wrk
from tests.bench.places import FUNCTIONS, free_port, nginx, runtime, sless_server, temporary_folder
from tests.bench.table import Row, at_least, at_most, ratio

CONNECTIONS = (1, 32, 256)


def figures(report: Report) -> str:
    return f"{report.requests_per_sec:,.0f} req/s, p50 {report.p50_ms:.2f} ms, p99 {report.p99_ms:.1f} ms"


@contextmanager
def one_upstream() -> Iterator[tuple[str, str, str]]:
    """URLs of sless, nginx's proxy_pass and the upstream itself; all three return the same 34 bytes."""
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
        with nginx(folder, servers), sless_server(folder, command=command) as url:
            client = connect(url, folder)
            yield deploy(client, "hello", FUNCTIONS / "python", "python3.11"), f"http://127.0.0.1:{proxied}/", f"http://127.0.0.1:{direct}/"


def against_nginx(seconds: int, pairs: int) -> Iterator[Row]:
    with one_upstream() as (sless_url, nginx_url, direct_url):
        for connections in CONNECTIONS:
            measured = alternate(
                lambda count=connections: wrk(sless_url, connections=count, seconds=seconds),
                lambda count=connections: wrk(nginx_url, connections=count, seconds=seconds),
                pairs,
            )
            if measured.failed:
                raise RuntimeError(f"{measured.failed} calls failed: what is compared must answer")
            detail = f"sless {figures(median(measured.first))}; nginx {figures(median(measured.second))}"
            name = f"proxy / nginx proxy_pass, one upstream, {connections} connections"
            yield at_least(name, measured.ratio, 0.15, detail=detail) if connections == 32 else ratio(name, measured.ratio, detail=detail)
        added = alternate(
            lambda: wrk(sless_url, connections=1, seconds=seconds), lambda: wrk(direct_url, connections=1, seconds=seconds), pairs
        )
        yield at_most("added by the proxy at the median of one connection", added.added_ms, 0.3, unit="ms")


def against_the_instance(seconds: int, pairs: int) -> Iterator[Row]:
    for name, code in (("python3.11", "python"), ("nodejs20", "node")):
        with temporary_folder() as folder, sless_server(folder) as url, runtime(name, FUNCTIONS / code, folder) as instance:
            called = deploy(connect(url, folder), "hello", FUNCTIONS / code, name)
            for connections in CONNECTIONS:
                measured = alternate(
                    lambda called=called, count=connections: wrk(called, connections=count, seconds=seconds, script=POST_JSON),
                    lambda instance=instance, count=connections: wrk(instance, connections=count, seconds=seconds, script=POST_JSON),
                    pairs,
                )
                detail = f"sless {figures(median(measured.first))}; instance {figures(median(measured.second))}; failed {measured.failed}"
                yield ratio(
                    f"proxy + {name} function / the instance called directly, {connections} connections", measured.ratio, detail=detail
                )


def beside_slow_work(seconds: int) -> Iterator[Row]:
    """p99 of calls on 8 connections while the control plane is busy, against the same minute without that work."""
    with temporary_folder() as folder, sless_server(folder) as url:
        client = connect(url, folder)
        called = deploy(client, "hello", FUNCTIONS / "python", "python3.11")
        for number in range(90):
            client.functions.create({"name": f"f{number}", "runtime": "python3.11"})
        packed = pack(many_files(folder / "big", 5_000))
        client.services.create({"name": "big", "runtime": "python3.11", "replicas": 0})
        works: list[tuple[str, Callable[[], object]]] = [
            ("a 5,000-file upload", lambda: client.services.upload("big", packed)),
            ("a list of 500 invocations", lambda: list(islice(client.functions.invocations("hello", limit=500), 500))),
        ]
        for name, work in works:
            quiet = wrk(called, connections=8, seconds=seconds, script=POST_JSON)
            busy = under(work, lambda: wrk(called, connections=8, seconds=seconds, script=POST_JSON))
            detail = f"quiet {figures(quiet)}; busy {figures(busy)}; failed {quiet.failed + busy.failed}"
            yield ratio(f"p99 during {name} / p99 without", busy.p99_ms / quiet.p99_ms, detail=detail)


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
