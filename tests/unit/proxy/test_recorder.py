"""Batched history: sums, bounds and outages of the writer."""

from collections import Counter
from collections.abc import Iterator

import pytest

from sless.domain.history_batch import choose_rows, decode
from sless.domain.model import CallStatus, CallTrigger
from sless.domain.ports import Route
from sless.domain.statistics import LATENCY_BOUNDS_MS
from sless.metrics import REGISTRY
from sless.proxy import recorder as recorder_module
from sless.proxy.history_sink import link_to
from sless.proxy.recorder import Recorder
from sless.proxy.request import CallRecord, Request
from tests.builders import make_log_line
from tests.proxykit.fakes import FakeHistory, revision_of, route_of
from tests.services.product import wait_until


def call_of(
    route: Route, *, version: int = 3, duration_ms: float = 4.0, status: CallStatus = CallStatus.SUCCEEDED, at: float = 60.0
) -> CallRecord:
    call = CallRecord(route, CallTrigger.HTTP, Request("GET", b"/fn/ns/f\xff", b"", []))
    call.version = version
    call.started_at = at
    call.finish(status)
    call.duration_ms = duration_ms
    return call


@pytest.fixture
def history() -> FakeHistory:
    return FakeHistory()


@pytest.fixture
def recorder(history: FakeHistory) -> Recorder:
    """Not started: `flush` writes in the caller's thread."""
    return Recorder(link_to(history))


@pytest.fixture
def running(history: FakeHistory) -> Iterator[Recorder]:
    made = Recorder(link_to(history))
    made.start()
    yield made
    made.stop()


def test_stats_are_summed_per_workload_version_and_minute(recorder: Recorder, history: FakeHistory) -> None:
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


def test_a_record_arrives_with_all_fields(recorder: Recorder, history: FakeHistory) -> None:
    call, line = call_of(route_of(), status=CallStatus.FAILED), make_log_line(text="\ud800 lone")
    call.error, call.http_status, call.cold, call.request_bytes, call.response_bytes = "e", 502, True, 3, 4
    recorder.add(call)
    recorder.add_lines([line])
    recorder.flush()
    [found] = history.invocations
    assert history.lines == [line]
    assert (found.id, found.request_id, found.workload_id, found.namespace) == (call.id, call.id, "w-f", route_of().namespace)
    assert (found.kind, found.trigger, found.status) == (route_of().kind, CallTrigger.HTTP, CallStatus.FAILED)
    assert (found.path, found.method, found.error, found.http_status) == ("/fn/ns/f\xff", "GET", "e", 502)
    assert (found.cold, found.attempts, found.request_bytes, found.response_bytes) == (True, 1, 3, 4)
    assert found.started_at.timestamp() == 60.0 and found.finished_at is not None and found.finished_at.timestamp() == 60.004


def dropped(kind: str) -> float:
    return REGISTRY.get_sample_value("sless_history_dropped_total", {"kind": kind}) or 0.0


def test_rows_are_bounded_per_workload() -> None:
    recorder = Recorder(link_to(FakeHistory()))
    f, g = route_of("f"), route_of("g")
    for number in range(30):
        recorder.add(call_of(f, duration_ms=number))
    recorder.add(call_of(g))
    recorder._seal()
    [sealed] = recorder._queue
    first, second = decode(sealed.data), decode(sealed.data)
    choose_rows([first, second], per_workload=10)
    assert not [call for call in first.rows if call.facts.name == "f"]
    assert [call.duration_ms for call in second.rows if call.facts.name == "f"] == list(range(20, 30))
    assert len([call for batch in (first, second) for call in batch.rows if call.facts.name == "g"]) == 2
    assert first.all_sums()["w-f", 3, 1].calls == 30


def test_a_batch_waits_out_an_outage(recorder: Recorder, history: FakeHistory) -> None:
    route = route_of()
    history.failing = True
    recorder.add(call_of(route, duration_ms=1))
    assert not recorder.flush()
    recorder.add(call_of(route, duration_ms=2))
    assert not recorder.flush()
    history.failing = False
    assert recorder.flush()
    assert [row.duration_ms for row in history.invocations] == [1, 2]
    assert sum(row.calls for row in history.stats) == 2 and sum(row.duration_ms for row in history.stats) == 3
    assert recorder.flush() and len(history.invocations) == 2


def test_memory_stays_bounded_during_an_outage_and_sums_are_kept(history: FakeHistory) -> None:
    before = dropped("calls"), dropped("lines")
    history.failing = True
    recorder = Recorder(link_to(history), max_bytes=4_000)
    for number in range(50):
        recorder.add(call_of(route_of(), duration_ms=number))
        recorder.add_lines([make_log_line(seq=number, text="x" * 100)])
        recorder.flush()
        assert recorder._queue.size_bytes < 5_000
    history.failing = False
    assert recorder.flush() and recorder.flush()
    kept = [row.duration_ms for row in history.invocations]
    assert 2 < len(kept) < 40 and kept == list(range(50 - len(kept), 50))
    assert [line.seq for line in history.lines] == kept
    assert sum(row.calls for row in history.stats) == 50 and sum(row.duration_ms for row in history.stats) == sum(range(50))
    assert dropped("calls") - before[0] == 50 - len(kept) == dropped("lines") - before[1]


def test_remaining_records_are_written_on_stop(history: FakeHistory) -> None:
    recorder = Recorder(link_to(history))
    recorder.start()
    recorder.add(call_of(route_of()))
    line = make_log_line()
    recorder.add_lines([line])
    recorder.stop()
    assert len(history.invocations) == 1 and history.lines == [line]


def test_records_that_cannot_be_written_on_stop_are_counted(history: FakeHistory) -> None:
    before = dropped("calls")
    history.failing = True
    recorder = Recorder(link_to(history))
    recorder.start()
    recorder.add(call_of(route_of()))
    recorder.stop()
    assert dropped("calls") - before == 1


def test_only_the_first_end_of_a_call_counts() -> None:
    call = call_of(route_of(), status=CallStatus.TIMEOUT)
    call.finish(CallStatus.SUCCEEDED)
    assert call.status is CallStatus.TIMEOUT


def test_a_call_is_written_soon_and_many_together(running: Recorder, history: FakeHistory) -> None:
    running.add(call_of(route_of("f")))
    wait_until(lambda: len(history.invocations) == 1, "the only call is written")
    for _ in range(recorder_module.BATCH_CALLS * 2):
        running.add(call_of(route_of("f")))
    wait_until(lambda: len(history.invocations) == 1 + 2 * recorder_module.BATCH_CALLS, "all are written")
    assert len(history.stats) <= 4


def test_flush_waits_until_everything_is_written(running: Recorder, history: FakeHistory) -> None:
    for number in range(20):
        running.add_lines([make_log_line(seq=number)])
        assert running.flush(5)
        assert len(history.lines) == number + 1


def test_a_flood_of_lines_loses_only_its_own_lines_while_the_writer_is_behind(history: FakeHistory) -> None:
    recorder = Recorder(link_to(history), max_bytes=400_000)
    history.failing = True
    for number in range(400):
        for workload in ("flood", "flood too"):
            text = f"{number:04}" + "x" * 1000
            recorder.add_lines([make_log_line(namespace="one", workload_id=workload, source_id=workload, seq=number, text=text)])
        line = make_log_line(namespace="two", workload_id="calm", source_id="other", seq=number, text="y")
        recorder.add_lines([line] if number % 20 == 0 else [])
    history.failing = False
    recorder.flush()
    of = Counter(line.workload_id for line in history.lines)
    assert of["calm"] == 20 and 100 <= of["flood"] + of["flood too"] < 305, "a tenant has one share, however many functions print"
