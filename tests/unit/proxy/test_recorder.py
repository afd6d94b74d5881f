"""Batched history: sums, bounds and database outages."""

import pytest

from sless.domain.model import CallStatus, CallTrigger
from sless.domain.ports import Route
from sless.domain.statistics import LATENCY_BOUNDS_MS
from sless.metrics import REGISTRY
from sless.proxy import recorder as recorder_module
from sless.proxy.recorder import Recorder
from sless.proxy.request import CallRecord, Request
from tests.builders import make_log_line
from tests.proxykit.fakes import FakeHistory, revision_of, route_of
from tests.services.product import wait_until


def call_of(
    route: Route, *, version: int = 3, duration_ms: float = 4.0, status: CallStatus = CallStatus.SUCCEEDED, at: float = 60.0
) -> CallRecord:
    call = CallRecord(route, CallTrigger.HTTP, Request("GET", b"/fn/ns/f", b"", []))
    call.version = version
    call.started_at = at
    call.finish(status)
    call.duration_ms = duration_ms
    return call


def test_stats_are_summed_per_workload_version_and_minute() -> None:
    history = FakeHistory()
    recorder = Recorder(history)
    f, g = route_of("f", revision=revision_of("f", memory_mb=512)), route_of("g")
    for call in (
        call_of(f), call_of(f, duration_ms=0.1), call_of(f, duration_ms=1e9, status=CallStatus.FAILED), call_of(f, version=4),
        call_of(f, at=119.9), call_of(f, at=120), call_of(g),
    ):  # fmt: skip
        recorder.add(call)
    assert recorder.flush()
    rows = {(row.workload_id, row.version, row.minute.minute): row for row in history.stats}
    assert set(rows) == {("w-f", 3, 1), ("w-f", 3, 2), ("w-f", 4, 1), ("w-g", 3, 1)}
    row = rows["w-f", 3, 1]
    assert (row.calls, row.errors) == (4, 1)
    assert row.duration_ms == pytest.approx(1e9 + 8.1) and row.gb_ms == pytest.approx((1e9 + 8.1) / 2)
    assert len(row.histogram) == len(LATENCY_BOUNDS_MS) + 1
    assert (row.histogram[0], row.histogram[LATENCY_BOUNDS_MS.index(5)], row.histogram[-1]) == (1, 2, 1)
    assert len(history.invocations) == 7


def dropped(kind: str) -> float:
    return REGISTRY.get_sample_value("sless_history_dropped_total", {"kind": kind}) or 0.0


def test_rows_are_bounded_but_sums_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dropped("calls")
    monkeypatch.setattr(recorder_module, "ROWS_PER_WORKLOAD", 10)
    monkeypatch.setattr(recorder_module, "ROWS_IN_ALL", 15)
    history = FakeHistory()
    recorder = Recorder(history)
    f, g = route_of("f"), route_of("g")
    for number in range(100):
        recorder.add(call_of(f, duration_ms=number))
    for number in range(100):
        recorder.add(call_of(g, duration_ms=number))
    recorder.flush()
    kept = {name: [row.duration_ms for row in history.invocations if row.name == name] for name in "fg"}
    assert len(kept["f"]) + len(kept["g"]) == 15
    assert kept["g"][-1] == 99 and kept["f"][-1] == 99
    assert sum(row.calls for row in history.stats) == 200
    assert dropped("calls") - before == 200 - 15


def test_a_batch_waits_out_a_database_outage() -> None:
    history = FakeHistory()
    recorder = Recorder(history)
    route = route_of()
    history.failing = True
    recorder.add(call_of(route, duration_ms=1))
    assert not recorder.flush()
    recorder.add(call_of(route, duration_ms=2))
    assert not recorder.flush()
    history.failing = False
    assert recorder.flush()
    assert [row.duration_ms for row in history.invocations] == [1, 2]
    [row] = history.stats
    assert (row.calls, row.duration_ms) == (2, 3)
    assert recorder.flush() and len(history.invocations) == 2


def test_memory_stays_bounded_during_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "ROWS_PER_WORKLOAD", 10)
    history = FakeHistory()
    history.failing = True
    recorder = Recorder(history)
    for number in range(30):
        recorder.add(call_of(route_of(), duration_ms=number))
        recorder.flush()
    history.failing = False
    recorder.flush()
    assert [row.duration_ms for row in history.invocations] == list(range(20, 30))
    assert sum(row.calls for row in history.stats) == 30


def test_lines_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dropped("lines")
    monkeypatch.setattr(recorder_module, "LINES_IN_ALL", 8)
    monkeypatch.setattr(recorder_module, "LINE_CHARS_IN_ALL", 50)
    history = FakeHistory()
    history.failing = True
    recorder = Recorder(history)
    for size in (1, 10):
        for seq in range(12):
            recorder.add_lines([make_log_line(seq=seq, text="x" * size)])
            recorder.flush()
        kept = {1: list(range(4, 12)), 10: list(range(7, 12))}[size]
        assert [line.seq for line in recorder._batch.lines] == kept
    history.failing = False
    recorder.flush()
    assert [line.seq for line in history.lines] == list(range(7, 12))
    assert dropped("lines") - before == 24 - 5


def test_the_rest_is_written_on_stop() -> None:
    history = FakeHistory()
    recorder = Recorder(history, every_sec=3600)
    recorder.start()
    recorder.add(call_of(route_of()))
    line = make_log_line()
    recorder.add_lines([line])
    recorder.stop()
    assert len(history.invocations) == 1 and history.lines == [line]


def test_only_the_first_end_of_a_call_counts() -> None:
    call = call_of(route_of(), status=CallStatus.TIMEOUT)
    call.finish(CallStatus.SUCCEEDED)
    assert call.status is CallStatus.TIMEOUT


def test_one_call_is_written_soon_and_many_are_batched() -> None:
    history = FakeHistory()
    recorder = Recorder(history, every_sec=3600)
    recorder.start()
    try:
        recorder.add(call_of(route_of("f")))
        wait_until(lambda: len(history.invocations) == 1, "the only call is written")
        with recorder._lock:  # all at once, not a small batch and the rest
            for _ in range(recorder_module.QUICK_SIZE + 1):
                recorder._batch.add(call_of(route_of("f")))
        assert not recorder._stopping.wait(3 * recorder_module.QUICK_SEC)
        assert len(history.invocations) == 1
    finally:
        recorder.stop()
    assert len(history.invocations) == recorder_module.QUICK_SIZE + 2
