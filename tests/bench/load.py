"""Runs wrk for load and reads its report."""

import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.effort import Effort

POST_JSON = """wrk.method = "POST"
wrk.body = '{"name": "bench"}'
wrk.headers["Content-Type"] = "application/json"
"""
MOMENT_PAUSE_MS = 2
"""Between the requests of one connection, multiplied by their number: all together make at most 500 requests a second."""
_UNIT_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Latencies in milliseconds; `failed` counts socket errors, time-outs and answers other than 2xx and 3xx."""

    requests_per_sec: float
    p50_ms: float
    p99_ms: float
    failed: int


def wrk(url: str, *, connections: int, effort: Effort, script: str = "", authorization: str = "") -> Report:
    """One run with one thread, which leaves the other core to the servers. For a moment, connections pause between requests."""
    if effort.moment:
        script += f"function delay() return {MOMENT_PAUSE_MS * connections} end\n"
    with tempfile.TemporaryDirectory() as folder:
        command = ["wrk", "-t1", f"-c{connections}", f"-d{effort.seconds}s", "--latency", "--timeout", "30s"]
        if script:
            (path := Path(folder) / "load.lua").write_text(script)
            command += ["-s", str(path)]
        if authorization:
            command += ["-H", f"Authorization: {authorization}"]
        done = subprocess.run([*command, url], capture_output=True, text=True, timeout=effort.seconds + 60, check=True)
    return report_of(done.stdout)


def report_of(text: str) -> Report:
    """Raises ValueError if the text is not a wrk report."""
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    if rate is None:
        raise ValueError(f"expected a report of wrk, found {text[:200]!r}")
    failed = sum(int(number) for line in re.findall(r"Socket errors: (.*)", text) for number in re.findall(r"\d+", line))
    failed += sum(int(number) for number in re.findall(r"Non-2xx or 3xx responses: (\d+)", text))
    return Report(
        requests_per_sec=float(rate.group(1)), p50_ms=_percentile_ms(text, "50"), p99_ms=_percentile_ms(text, "99"), failed=failed
    )


def _percentile_ms(text: str, percent: str) -> float:
    found = re.search(rf"^\s+{percent}%\s+([\d.]+)(us|ms|s|m)\s*$", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"expected a latency at {percent} %, found {text[:400]!r}")
    return float(found.group(1)) * _UNIT_MS[found.group(2)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Alternating measurements of two servers, so that noise hits both. `ratio` is the median of the pairs' ratios."""

    first: tuple[Report, ...]
    second: tuple[Report, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(a.requests_per_sec / b.requests_per_sec for a, b in zip(self.first, self.second, strict=True))

    @property
    def p99_ratio(self) -> float:
        return statistics.median(a.p99_ms / b.p99_ms for a, b in zip(self.first, self.second, strict=True))

    @property
    def added_ms(self) -> float:
        """Median of (first − second) at the median latency."""
        return statistics.median(a.p50_ms - b.p50_ms for a, b in zip(self.first, self.second, strict=True))

    @property
    def failed(self) -> int:
        return sum(report.failed for report in (*self.first, *self.second))


def alternate(first: Callable[[], Report], second: Callable[[], Report], pairs: int) -> Pairs:
    measured = [(first(), second()) for _ in range(pairs)]
    return Pairs(first=tuple(a for a, _ in measured), second=tuple(b for _, b in measured))


def median(reports: tuple[Report, ...]) -> Report:
    """The report with the median rate."""
    return sorted(reports, key=lambda report: report.requests_per_sec)[len(reports) // 2]
