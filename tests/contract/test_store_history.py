"""History: batches, pages, cursors, statistics, clean-up."""

import itertools
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from sless import clock
from sless.domain.log_line import MAX_SEQ, log_line_of
from sless.domain.model import CallStatus, CallTrigger, Kind, TriggerType
from sless.domain.statistics import DayUsage
from sless.errors import Code, SlessError
from sless.store.history import BYTES_AT_ONCE, LINES_AT_ONCE
from tests.builders import AT, NAMESPACE, make_call_stats, make_invocation, make_log_line, make_run, make_workload_spec
from tests.contract.store_steps import at_once, claim_run

CLEAN = {"history_days": 14, "per_function": 10_000, "stats_days": 400}
MINUTE = AT.replace(second=0, microsecond=0)


def clean_all(store, **limits) -> list[int]:
    """Cleans until nothing is left; returns how much each step deleted."""
    steps = iter(lambda: store.history.clean(**(CLEAN | limits)), 0)
    return list(itertools.islice(steps, 1000))


def read_stats(store, workload_id="w1"):
    return store.history.stats(workload_id, MINUTE - timedelta(days=1), MINUTE + timedelta(days=1))


class TestBatches:
    def test_a_batch_round_trips(self, store):
        call = make_invocation(
            request_id="theirs", version=None, trigger=CallTrigger.EVENT, method="GET", path="/ä\0/%2F", status=CallStatus.TIMEOUT,
            http_status=None,
            duration_ms=None, cold=True, attempts=2, error="\ud800", request_bytes=2**40, response_bytes=0, finished_at=None, result="{}",
        )  # fmt: skip
        line = make_log_line(invocation_id=call.id, text="a\0b ✓ \udfff", stream="stderr", seq=2**40)
        store.history.add_history([call], [], [line])
        expected = replace(call, path="/ä\ufffd/%2F", error="\ufffd")
        assert store.history.find_invocation("w1", call.id) == expected
        assert store.history.lines_of("w1", call.id) == [replace(line, text="a\ufffdb ✓ \ufffd")]

    def test_duplicates_are_ignored(self, store):
        call, line = make_invocation(), make_log_line()
        store.history.add_history([call], [], [line])
        store.history.add_history(
            [replace(call, path="/other"), make_invocation()], [], [replace(line, text="other"), make_log_line(seq=2)]
        )
        assert store.history.find_invocation("w1", call.id) == call
        assert len(store.history.list_invocations("w1")) == 2
        assert [line.text for _, line in store.history.log_tail("w1")] == ["hello", "hello"]

    def test_a_call_for_a_message_is_shown_from_its_start(self, store):
        ended = make_invocation(trigger=CallTrigger.EVENT)
        begun = replace(ended, status=CallStatus.RUNNING, duration_ms=None, finished_at=None)
        store.history.add_history([begun], [], [])
        assert store.history.find_invocation("w1", begun.id) == begun
        store.history.add_history([begun, ended], [], [])
        store.history.add_history([begun], [], [])  # a batch that is written again
        assert store.history.list_invocations("w1") == [ended]

    def test_calls_for_messages_of_a_killed_server_end(self, store, workload):
        store.triggers.insert(NAMESPACE, name="mail", type=TriggerType.EVENT, function_ref="hello")
        ended = make_invocation(trigger=CallTrigger.EVENT, workload_id=workload.id)
        begun = replace(ended, status=CallStatus.RUNNING, duration_ms=None, finished_at=None)
        web = replace(begun, id="web", trigger=CallTrigger.HTTP)
        store.history.add_history([begun, web], [], [])
        store.history.end_running_messages()
        found = store.history.find_invocation(workload.id, begun.id)
        assert (found.status, "interrupted" in found.error, found.finished_at is None) == (CallStatus.CANCELLED, True, False)
        assert store.history.find_invocation(workload.id, "web") == web
        store.history.add_history([ended], [], [])  # it had not been killed, only slow
        assert store.history.find_invocation(workload.id, ended.id) == ended

    def test_all_or_nothing(self, store):
        broken = replace(make_log_line(), at=None)
        with pytest.raises(SlessError):
            store.history.add_history([make_invocation()], [make_call_stats()], [broken])
        assert store.history.list_invocations("w1") == [] and read_stats(store) == []

    @pytest.mark.parametrize("fields", [{"seq": 0}, {"seq": MAX_SEQ}, {"time": "1970-01-01T00:00:00Z"}, {"time": "9998-12-31T23:59:59Z"}])
    def test_every_line_an_instance_may_send_can_be_stored(self, store, fields):
        said = {"seq": 1, "time": "2026-01-31T09:26:53Z", "stream": "stdout", "id": "a" * 128, "text": "\0\ud800" * 9000}
        line = log_line_of(said | fields, source_id="i1", workload_id="w1")
        store.history.add_history([], [], [line])
        assert [(found.seq, found.at) for _, found in store.history.log_tail("w1")] == [(line.seq, line.at)]

    def test_an_empty_batch(self, store):
        store.history.add_history([], [], [])

    def test_concurrent_writers(self, make_store, store):
        stores = [store, make_store()]

        def add(number: int) -> None:
            calls = [make_invocation() for _ in range(50)]
            lines = [make_log_line(source_id=f"i{number}", seq=seq) for seq in range(50)]
            stores[number % 2].history.add_history(calls, [make_call_stats(version=v) for v in (1, 2, 3)], lines)

        at_once([lambda number=number: add(number) for number in range(8)])
        assert len(store.history.list_invocations("w1", limit=1000)) == 400
        assert len(store.history.log_tail("w1")) == 400
        assert [(item.version, item.calls) for item in read_stats(store)] == [(1, 8), (2, 8), (3, 8)]

    def test_ten_thousand_rows(self, store):
        """Not a benchmark: one statement per row would take a minute."""
        calls = [make_invocation(started_at=AT + timedelta(microseconds=n)) for n in range(10_000)]
        lines = [make_log_line(seq=n) for n in range(10_000)]
        began = time.monotonic()
        store.history.add_history(calls, [make_call_stats()], lines)
        assert time.monotonic() - began < 10
        assert store.history.list_invocations("w1", limit=1) == [calls[-1]]


class TestInvocations:
    @pytest.fixture
    def calls(self, store):
        """Invocations, newest first; the last two started at the same time."""
        made = [
            make_invocation(id="e", started_at=AT + timedelta(seconds=3), status=CallStatus.FAILED),
            make_invocation(id="d", started_at=AT + timedelta(seconds=2), trigger=CallTrigger.CRON),
            make_invocation(id="c", started_at=AT + timedelta(seconds=1), status=CallStatus.FAILED, trigger=CallTrigger.CRON),
            make_invocation(id="b"),
            make_invocation(id="a"),
        ]
        store.history.add_history([*made, make_invocation(workload_id="other")], [], [])
        return made

    def test_newest_first_page_by_page(self, store, calls):
        assert store.history.list_invocations("w1") == calls
        pages, before = [], None
        while page := store.history.list_invocations("w1", limit=2, before=before):
            pages.append([call.id for call in page])
            before = page[-1].id
        assert pages == [["e", "d"], ["c", "b"], ["a"]]

    def test_filters(self, store, calls):
        ids = lambda **given: [call.id for call in store.history.list_invocations("w1", **given)]  # noqa: E731
        assert ids(status=CallStatus.FAILED) == ["e", "c"]
        assert ids(trigger=CallTrigger.CRON) == ["d", "c"]
        assert ids(status=CallStatus.FAILED, trigger=CallTrigger.CRON) == ["c"]
        assert ids(since=AT + timedelta(seconds=2)) == ["e", "d"]
        assert ids(status=CallStatus.FAILED, before="e") == ["c"]

    def test_a_bad_cursor(self, store, calls):
        with pytest.raises(SlessError, match='cursor: expected the id of an invocation, found "nonsense"') as caught:
            store.history.list_invocations("w1", before="nonsense")
        assert caught.value.code is Code.INVALID

    def test_find_by_id_or_request_id(self, store):
        old, new = make_invocation(request_id="same"), make_invocation(request_id="same", started_at=AT + timedelta(seconds=1))
        named_like_an_id = make_invocation(request_id=old.id)
        store.history.add_history([old, new, named_like_an_id], [], [])
        assert store.history.find_invocation("w1", "same") == new
        assert store.history.find_invocation("w1", old.id) == old
        assert store.history.find_invocation("other", old.id) is None
        assert store.history.find_invocation("w1", "nobody") is None


class TestLogs:
    @pytest.fixture(autouse=True)
    def _lines(self, store):
        lines = [make_log_line(seq=n, text=str(n), invocation_id="c1" if n % 2 else "", at=AT + timedelta(seconds=n)) for n in range(1, 7)]
        store.history.add_history([], [], [*lines, make_log_line(workload_id="other", source_id="i2")])

    def texts(self, store, **given) -> list[str]:
        return [line.text for _, line in store.history.log_tail("w1", **given)]

    def test_oldest_first(self, store):
        assert self.texts(store) == ["1", "2", "3", "4", "5", "6"]
        assert [line.text for line in store.history.lines_of("w1", "c1")] == ["1", "3", "5"]

    def test_a_call_does_not_show_lines_that_another_workload_attributes_to_it(self, store):
        store.history.add_history([], [], [make_log_line(workload_id="other", source_id="i3", text="forged", invocation_id="c1")])
        assert [line.text for line in store.history.lines_of("w1", "c1")] == ["1", "3", "5"]

    def test_pages_are_limited_by_size(self, store):
        lines = [make_log_line(seq=n, workload_id="w2", source_id="i4", text="x" * (BYTES_AT_ONCE // 4)) for n in range(10)]
        store.history.add_history([], [], lines)
        first = store.history.log_tail("w2")
        assert [line.seq for _, line in first] == [0, 1, 2, 3]
        assert [line.seq for _, line in store.history.log_tail("w2", after_id=first[-1][0])] == [4, 5, 6, 7]
        assert [line.seq for _, line in store.history.log_tail("w2", tail=9)] == [6, 7, 8, 9]
        store.history.add_history([], [], [make_log_line(seq=n, workload_id="w3", source_id="i5") for n in range(LINES_AT_ONCE + 1)])
        assert len(store.history.log_tail("w3")) == LINES_AT_ONCE < len(store.history.log_tail("w3", tail=10_000))

    def test_filters(self, store):
        assert self.texts(store, tail=2) == ["5", "6"]
        assert self.texts(store, tail=0) == []
        assert self.texts(store, since=AT + timedelta(seconds=5)) == ["5", "6"]

    def test_follow(self, store):
        last = store.history.log_tail("w1")[-1][0]
        assert self.texts(store, after_id=last) == []
        store.history.add_history([], [], [make_log_line(source_id="i9", seq=n, text=f"new {n}") for n in range(3)])
        assert self.texts(store, after_id=last) == ["new 0", "new 1", "new 2"]

    def test_followers_do_not_miss_lines_committed_later(self, store, make_store):
        """IDs must grow in commit order even when several servers write."""
        writers = [make_store() for _ in range(3)]
        total = 3 * 40

        def write(number: int) -> None:
            for seq in range(40):
                writers[number].history.add_history([], [], [make_log_line(source_id=f"w{number}", seq=seq, workload_id="followed")])

        def follow() -> None:
            seen: set[tuple[str, int]] = set()
            last = 0
            deadline = time.monotonic() + 50
            while len(seen) < total and time.monotonic() < deadline:
                for row_id, line in store.history.log_tail("followed", after_id=last):
                    seen.add((line.source_id, line.seq))
                    last = row_id
            assert len(seen) == total

        at_once([follow, *[lambda number=number: write(number) for number in range(3)]])


class TestStats:
    def test_stats_are_added_up_by_minute_and_version(self, store):
        one = make_call_stats(calls=2, errors=1, gb_ms=0.5, duration_ms=10.0)
        store.history.add_history([], [one, one, make_call_stats(version=2)], [])
        store.history.add_history([], [one, make_call_stats(minute=MINUTE + timedelta(minutes=1))], [])
        first, second, third = read_stats(store)
        assert first == replace(one, calls=6, errors=3, gb_ms=1.5, duration_ms=30.0, histogram=(3, *one.histogram[1:]))
        assert (second.version, second.minute, second.calls) == (2, MINUTE, 1)
        assert (third.version, third.minute, third.calls) == (1, MINUTE + timedelta(minutes=1), 1)

    def test_stats_of_several_servers_are_added_up(self, store, make_store):
        for server in (store, make_store(), make_store()):
            server.history.add_history([], [make_call_stats()], [])
        assert [item.calls for item in read_stats(store)] == [3]

    def test_a_time_range(self, store):
        store.history.add_history([], [make_call_stats(minute=MINUTE + timedelta(minutes=n)) for n in range(5)], [])
        found = store.history.stats("w1", MINUTE + timedelta(minutes=1), MINUTE + timedelta(minutes=3))
        assert [item.minute for item in found] == [MINUTE + timedelta(minutes=1), MINUTE + timedelta(minutes=2)]

    def test_seconds_are_truncated(self, store):
        store.history.add_history([], [make_call_stats(minute=AT), make_call_stats(minute=AT.replace(second=1))], [])
        assert [(item.minute, item.calls) for item in read_stats(store)] == [(MINUTE, 2)]

    def test_more_keys_than_fit_in_one_statement(self, store):
        stats = [make_call_stats(workload_id=f"w{n}") for n in range(900)]
        for _ in range(2):
            store.history.add_history([], stats, [])
        assert [item.calls for item in read_stats(store, "w899")] == [2]

    def test_slots_of_several_workloads(self, store):
        def stats(minute: int, calls: int, errors: int, **more):
            return make_call_stats(minute=MINUTE + timedelta(minutes=minute), calls=calls, errors=errors, **more)

        outside = [stats(-1, 9, 9), stats(15, 9, 9)]
        inside = [stats(0, 3, 1), stats(4, 2, 0, version=2), stats(5, 1, 1), stats(14, 8, 0), stats(7, 4, 0, workload_id="w2")]
        store.history.add_history([], [*inside, *outside], [])
        found = store.history.slots(["w1", "w2", "w3"], MINUTE, timedelta(minutes=5), 3)
        assert found == {"w1": [(5, 1), (1, 1), (8, 0)], "w2": [(0, 0), (4, 0), (0, 0)]}
        assert store.history.slots([], MINUTE, timedelta(minutes=5), 3) == {}

    def test_the_newest_call_of_each_workload(self, store):
        store.tenants.ensure(NAMESPACE, "alice")
        one, two, three = (store.workloads.insert(NAMESPACE, Kind.FUNCTION, name, make_workload_spec()).id for name in ("a", "b", "c"))
        calls = [
            make_invocation(workload_id=one, started_at=AT, status=CallStatus.FAILED, http_status=500),
            make_invocation(workload_id=one, started_at=AT - timedelta(seconds=1)),
            make_invocation(workload_id=two, started_at=AT, status=CallStatus.QUEUED, http_status=None),
        ]
        store.history.add_history(calls, [], [])
        found = store.history.newest_of([one, two, three])
        assert {key: (call.status, call.http_status, call.at) for key, call in found.items()} == {
            one: (CallStatus.FAILED, 500, AT),
            two: (CallStatus.QUEUED, None, AT),
        }

    def test_usage_by_utc_day(self, store):
        midnight = MINUTE.replace(hour=0, minute=0)
        stats = [
            make_call_stats(minute=midnight - timedelta(minutes=1), gb_ms=2000.0),
            make_call_stats(minute=midnight, errors=1, gb_ms=500.0),
            make_call_stats(minute=midnight + timedelta(hours=23), workload_id="gone", gb_ms=250.0),
            make_call_stats(minute=midnight, namespace="sless-other", workload_id="x"),
        ]
        store.history.add_history([], stats, [])
        today = DayUsage(day="2026-01-31", invocations=2, errors=1, gb_seconds=0.75)
        assert store.history.usage(NAMESPACE, AT) == [today]
        before = DayUsage(day="2026-01-30", invocations=1, errors=0, gb_seconds=2.0)
        assert store.history.usage(NAMESPACE, AT - timedelta(days=1)) == [before, today]


class TestCleaning:
    def test_a_run_stays_until_its_callback_is_sent(self, store, workload):
        old = clock.now() - timedelta(days=99)
        run = make_run(workload_id=workload.id, callback_url="https://example.com/x", created_at=old)
        store.runs.insert(run)
        claim_run(store, run.id, "h", 1)
        store.runs.finish(run.id, status=CallStatus.SUCCEEDED)
        with store.database.write() as conn:
            for table, column in (("invocations", "started_at"), ("runs", "ended_at")):
                conn.exec_driver_sql(f"UPDATE {table} SET {column} = (SELECT created_at FROM runs WHERE id = '{run.id}')")
        clean_all(store, history_days=1)
        callback = store.callbacks.find(run.id)
        assert callback is not None and store.history.find_invocation(workload.id, run.id) is None
        store.callbacks.delivered(callback, 200)
        clean_all(store, history_days=1)
        assert store.runs.find(run.id) is None and store.callbacks.find(run.id) is None and store.runs.attempts_of(run.id) == []

    def test_old_rows_are_deleted(self, store):
        now = clock.now()
        old, young = now - timedelta(days=15), now - timedelta(days=13)
        calls = [make_invocation(started_at=moment) for moment in (old, old, young)]
        lines = [
            make_log_line(seq=1, invocation_id=calls[0].id, at=now),
            make_log_line(seq=2, at=old),
            make_log_line(seq=3, at=young),
            make_log_line(seq=4, invocation_id=calls[2].id, at=young),
        ]
        stats = [make_call_stats(minute=now - timedelta(days=days)) for days in (500, 401, 399)]
        store.history.add_history(calls, stats, lines)
        assert sum(clean_all(store)) == 2 + 2 + 2
        assert store.history.list_invocations("w1") == [calls[2]]
        assert [line.seq for _, line in store.history.log_tail("w1")] == [3, 4]
        assert len(store.history.stats("w1", now - timedelta(days=1000), now)) == 1
        assert store.history.clean(**CLEAN) == 0

    def test_each_workload_keeps_its_newest_calls(self, store):
        now = clock.now()
        calls = [make_invocation(id=f"c{n}", started_at=now - timedelta(seconds=n)) for n in range(7)]
        others = [make_invocation(workload_id="w2", started_at=now - timedelta(seconds=n)) for n in range(3)]
        lines = [make_log_line(seq=n, invocation_id=f"c{n}", at=now) for n in range(7)]
        store.history.add_history([*calls, *others], [], lines)
        assert sum(clean_all(store, per_function=4)) == 6
        assert store.history.list_invocations("w1") == calls[:4]
        assert [line.invocation_id for _, line in store.history.log_tail("w1")] == ["c0", "c1", "c2", "c3"]
        assert len(store.history.list_invocations("w2")) == 3

    def test_lines_outside_calls_are_limited_by_number(self, store):
        now = clock.now()
        lines = [make_log_line(seq=n, at=now) for n in range(7)] + [make_log_line(seq=9, at=now, invocation_id="c1")]
        store.history.add_history([], [], lines)
        clean_all(store, per_function=3)
        assert [line.seq for _, line in store.history.log_tail("w1")] == [4, 5, 6, 9]

    def test_rows_are_deleted_in_small_steps(self, store):
        old = clock.now() - timedelta(days=15)
        store.history.add_history([make_invocation(started_at=old, workload_id=f"w{n % 3}") for n in range(25)], [], [])
        steps = clean_all(store, batch=5)
        assert sum(steps) == 25 and max(steps) <= 5

    def test_unfinished_runs_and_a_jobs_newest_run_stay(self, store, workload):
        job = store.workloads.insert(NAMESPACE, Kind.JOB, "job", make_workload_spec())
        waiting = make_run(workload_id=workload.id)
        first, newest = (make_run(workload_id=job.id, kind=Kind.JOB, job_run_id=number) for number in (1, 2))
        ended = make_run(workload_id=workload.id)
        for run in (waiting, first, newest, ended):
            store.runs.insert(run)
        for run in (first, newest, ended):
            store.runs.cancel(run.id)
        clean_all(store)
        assert store.history.find_invocation(workload.id, waiting.id) is not None
        assert store.runs.find(waiting.id) is not None
        assert store.runs.find(newest.id) is not None
        assert store.runs.find(first.id) is None and store.runs.find(ended.id) is None
