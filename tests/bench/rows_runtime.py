"""Standalone runtimes: throughput against Google's functions-framework for the same language, and start time."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

from tests.bench.effort import Effort
from tests.bench.load import POST_JSON, Report, alternate, median, wrk
from tests.bench.places import (
    FUNCTIONS,
    ROOT,
    Served,
    bare_go_server,
    go_handler,
    node_framework,
    process,
    python_framework,
    runtime,
    temporary_folder,
    wait_until,
)
from tests.bench.rows_proxy import figures
from tests.bench.table import Row, at_least, at_most, ratio

STARTS = 15
GO_BUILDS = 5


def against_frameworks(effort: Effort) -> Iterator[Row]:
    cases: list[tuple[str, str, Callable[[], AbstractContextManager[Served]], float]] = [
        ("python3.11", "python", python_framework, 10),
        ("nodejs20", "node", node_framework, 8),
        ("go1.23", "go", bare_go_server, 0.5),
    ]
    for name, code, framework, aim in cases:
        with temporary_folder() as folder, runtime(name, FUNCTIONS / code, folder) as ours, framework() as theirs:
            ours_us: list[float] = []
            theirs_us: list[float] = []
            measured = alternate(partial(_loaded, ours, effort, ours_us), partial(_loaded, theirs, effort, theirs_us), effort.pairs)
        other = "bare net/http" if name == "go1.23" else "functions-framework"
        detail = f"runtime {figures(median(measured.first))}; {other} {figures(median(measured.second))}; failed {measured.failed}"
        yield at_least(f"runtime {name} / {other}, POST JSON, 32 connections", measured.ratio, aim, detail=detail)
        saved = statistics.median(b / a for a, b in zip(ours_us, theirs_us, strict=True))
        detail = f"runtime {statistics.median(ours_us):.0f} µs, {other} {statistics.median(theirs_us):.0f} µs"
        yield ratio(f"{other} / runtime {name}, processor time of a request", saved, detail=detail)


def _loaded(server: Served, effort: Effort, cost_us: list[float]) -> Report:
    """One measurement. Adds the processor time per request, which depends less on the machine's load than the rate, to `cost_us`."""
    before = server.processor_sec()
    report = wrk(server, connections=32, effort=effort, script=POST_JSON)
    cost_us.append((server.processor_sec() - before) / (report.requests_per_sec * effort.seconds) * 1e6)
    return report


def go(effort: Effort) -> Iterator[Row]:
    """Time of a build with a warm compiler cache, and from start to listening, with no interpreter to subtract."""
    builds, number_of_starts = [], effort.times(STARTS)
    for number in range(effort.times(GO_BUILDS)):
        source = (FUNCTIONS / "go" / "handler.go").read_text() + f"\n// {time.time_ns()} {number}\n"
        with temporary_folder() as folder:
            (folder / "handler.go").write_text(source)
            began = time.monotonic()
            go_handler(folder).unlink()
            builds.append(time.monotonic() - began)
    detail = f"{min(builds):.2f} to {max(builds):.2f} s over {len(builds)} builds"
    yield at_most("runtime go1.23: build, warm cache", statistics.median(builds[1:]), 2, unit="s", detail=detail)
    program = str(go_handler(FUNCTIONS / "go"))
    starts = [start_sec([program], "go") * 1000 for _ in range(number_of_starts)]
    detail = f"{min(starts):.0f} to {max(starts):.0f} ms over {number_of_starts} starts"
    yield at_most("runtime go1.23: start to listening", statistics.median(starts), 20, unit="ms", detail=detail)


def start_times(effort: Effort) -> Iterator[Row]:
    """Time from start to listening, less the start and exit of the bare interpreter."""
    cases = [
        ("python3.11", "python", [sys.executable, "-E", "-s", "-S"], str(ROOT / "runtimes/python3.11/runtime.py"), ["-c", "0"], 30),
        ("nodejs20", "node", ["node"], str(ROOT / "runtimes/nodejs20/runtime.mjs"), ["-e", "0"], 40),
    ]
    for name, code, interpreter, script, nothing, aim in cases:
        ready, bare = [], []
        for _ in range(effort.times(STARTS)):
            began = time.monotonic()
            subprocess.run([*interpreter, *nothing], check=True)
            bare.append(time.monotonic() - began)
            ready.append(start_sec([*interpreter, script], code))
        above_ms = (statistics.median(ready) - statistics.median(bare)) * 1000
        detail = f"ready {statistics.median(ready) * 1000:.0f} ms, bare interpreter {statistics.median(bare) * 1000:.0f} ms"
        yield at_most(f"runtime {name}: start to listening, above the bare interpreter", above_ms, aim, unit="ms", detail=detail)


def start_sec(command: list[str], code: str) -> float:
    with temporary_folder() as folder:
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "SLESS_CODE_DIR": str(FUNCTIONS / code),
            "SLESS_SOCKET": str(folder / "s"), "SLESS_ENTRYPOINT": "handler.handle",
        }  # fmt: skip
        began = time.monotonic()
        with process(command, follows=False, env=environment):
            wait_until((folder / "s").exists, "the socket is there")
            return time.monotonic() - began
