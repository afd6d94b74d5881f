"""The process that writes history: nothing is lost or counted twice, whichever process is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from sless.app.adapters import history_link
from sless.config import Settings
from sless.domain.call_sums import Outcomes
from sless.domain.history_batch import choose_rows, decode
from sless.domain.model import CallStatus, CallTrigger
from sless.proxy.history_child import ChildLink
from sless.proxy.recorder import Recorder
from sless.proxy.request import CallRecord, Request
from sless.store import Store
from sless.store.history import Receipt
from sless.store.history_process import HistoryWriter
from tests.builders import AT, make_call_stats, make_invocation, make_log_line
from tests.proxykit.fakes import route_of
from tests.services.product import wait_until

ROUTE = route_of()
REQUEST = Request("GET", b"/fn/ns/f", b"", [])

Start = Callable[[], Recorder]


def add_calls(recorder: Recorder, count: int) -> None:
    for _ in range(count):
        call = CallRecord(ROUTE, CallTrigger.HTTP, REQUEST)
        call.version = 3
        call.finish(CallStatus.SUCCEEDED)
        recorder.add(call)


def link_of(recorder: Recorder) -> ChildLink:
    assert isinstance(recorder._link, ChildLink)
    return recorder._link


def pid_of(recorder: Recorder) -> int:
    wait_until(lambda: link_of(recorder).pid is not None, "the writer has started")
    return link_of(recorder).pid or 0


def written(store: Store) -> tuple[int, int]:
    """Calls as rows and as sums."""
    rows = len(store.history.list_invocations("w-f", limit=100_000))
    now = AT.now(AT.tzinfo)
    return rows, sum(item.calls for item in store.history.stats("w-f", now - timedelta(hours=1), now + timedelta(hours=1)))


@pytest.fixture
def outcomes() -> list[Outcomes]:
    return []


@pytest.fixture
def recorder(store: Store, database_url: str, outcomes: list[Outcomes], tmp_path: Path) -> Iterator[Recorder]:
    settings = Settings(data_dir=tmp_path, database_url=database_url)
    made = Recorder(history_link(settings, "holder"), observer=outcomes.append)
    made.start()
    yield made
    made.stop()


def test_calls_and_lines_arrive_and_are_counted(recorder: Recorder, store: Store, outcomes: list[Outcomes]) -> None:
    add_calls(recorder, 700)
    recorder.add_lines([make_log_line(text="\ud800", workload_id="w-f")])
    assert recorder.flush(20)
    assert written(store) == (700, 700)
    assert [line.text for _, line in store.history.log_tail("w-f")] == ["\ufffd"]
    assert sum(item.calls["function", "http", "succeeded"] for item in outcomes) == 700
    assert sum(sum(item.histogram) for item in outcomes) == 700
    # Signals that end the server do not end it before the server has handed over the rest.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid_of(recorder), number)
    add_calls(recorder, 1)
    recorder.stop()
    assert written(store) == (701, 701)


def test_a_killed_writer_loses_and_repeats_nothing(recorder: Recorder, store: Store, outcomes: list[Outcomes]) -> None:
    for _ in range(3):
        victim = pid_of(recorder)
        add_calls(recorder, 600)
        os.kill(victim, signal.SIGKILL)
        add_calls(recorder, 600)
        wait_until(lambda victim=victim: link_of(recorder).pid not in (None, victim), "another writer has started")
    assert recorder.flush(20)
    assert written(store) == (3600, 3600)
    assert sum(item.calls["function", "http", "succeeded"] for item in outcomes) == 3600


def test_a_batch_whose_answer_was_lost_is_not_added_again(store: Store) -> None:
    """Such as after a commit that reported an error but succeeded."""
    for number in (1, 1, 2, 1):
        store.history.add_once(Receipt("s", number), [make_invocation()], [make_call_stats()], [make_log_line(seq=number)])
    assert len(store.history.list_invocations("w1")) == 2 and len(store.history.log_tail("w1")) == 2
    minute = AT.replace(second=0, microsecond=0)
    assert sum(item.calls for item in store.history.stats("w1", minute, minute + timedelta(minutes=1))) == 2 * make_call_stats().calls
    store.history.add_once(Receipt("other", 1), [make_invocation()], [], [])
    store.history.forget_session("s")
    store.history.forget_sessions()  # the other one has just written
    store.history.add_once(Receipt("other", 1), [make_invocation()], [], [])
    assert len(store.history.list_invocations("w1")) == 3


def test_rows_that_the_database_refuses_do_not_stop_others(store: Store) -> None:
    answers: list[bytes] = []
    writer = HistoryWriter(store.history, "s", answers.append)
    batches = [decode(data) for data in (sealed_calls(3), sealed_calls(2))]
    batches[0].calls[1] = batches[0].calls[1]._replace(trigger="no such trigger")
    choose_rows(batches)
    writer.write([(1, batches[0])])
    writer.write([(2, batches[1])])
    assert len(answers) == 2
    assert written(store)[0] == 2


def sealed_calls(count: int) -> bytes:
    recorder = Recorder(lambda sender: _NoLink())
    add_calls(recorder, count)
    recorder._seal()
    [sealed] = recorder._queue
    return sealed.data


class _NoLink:
    def pump(self, timeout_sec: float) -> None: ...

    def wake(self) -> None: ...

    def finish(self, timeout_sec: float) -> None: ...


SERVER = """
import os, signal, sys
from pathlib import Path
from sless.app.adapters import history_link
from sless.config import Settings
from sless.proxy.recorder import Recorder
from tests.contract import test_history_process as steps

recorder = Recorder(history_link(Settings(data_dir=Path(sys.argv[2]), database_url=sys.argv[1]), "holder"))
recorder.start()
steps.add_calls(recorder, 1)
assert recorder.flush(30)
child = steps.pid_of(recorder)
if sys.argv[3] == "executed":
    os.kill(child, signal.SIGKILL)
    steps.wait_until(lambda: steps.link_of(recorder).pid not in (None, child), "another writer has started")
    child = steps.pid_of(recorder)
    steps.add_calls(recorder, 1)
    assert recorder.flush(30)
is_fork = Path(f"/proc/{child}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()
assert is_fork == (sys.argv[3] == "forked")
os.kill(child, signal.SIGSTOP)
lines = [steps.make_log_line(text="x" * 40_000, seq=seq, workload_id="w-f") for seq in range(200)]
recorder.add_lines(lines)  # 8 MB, more than pipes and sockets hold
steps.add_calls(recorder, 5000)
recorder.flush(0.5)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("start", ["forked", "executed"])
def test_after_the_server_has_ended_the_writer_writes_the_rest_and_exits(
    store: Store, database_url: str, tmp_path: Path, start: str
) -> None:
    command = [sys.executable, "-c", SERVER, database_url, str(tmp_path), start]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, cwd=Path(__file__).parents[2])
    child, before = int(done.stdout), 1 if start == "forked" else 2
    assert done.returncode == -signal.SIGKILL and written(store) == (before, before)
    os.kill(child, signal.SIGCONT)
    wait_until(lambda: not Path(f"/proc/{child}").exists() or is_zombie(child), "the writer has ended")
    assert written(store) == (before + 5000, before + 5000)
    seqs: list[int] = []
    last = 0
    while page := store.history.log_tail("w-f", after_id=last):
        seqs += [line.seq for _, line in page]
        last = page[-1][0]
    assert seqs == list(range(200))


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
