import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sless.domain.exits import exit_words_of
from sless.domain.output_rates import OutputRates
from sless.host.process import Launch, Processes
from sless.host.rundir import RunDir

PATH = "/usr/bin:/bin"


@pytest.fixture
def processes(tmp_path_factory):
    with _short_folder() as folder:
        run_dir = RunDir(folder / "run", folder)
        processes = Processes(run_dir)
        yield processes
        processes.close()
        run_dir.close()


@contextlib.contextmanager
def _short_folder():
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="slp-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Seen:
    def __init__(self) -> None:
        self.lines: list[tuple[str, bytes]] = []
        self.code: int | None = None
        self.ended = threading.Event()

    def launch(self, *argv: str) -> Launch:
        return Launch(argv=argv, cwd=Path("/"), env={"PATH": PATH}, on_lines=self._take, on_exit=self._exit)

    def python(self, code: str) -> Launch:
        return self.launch(sys.executable, "-I", "-S", "-c", code)

    def _take(self, stream, lines) -> None:
        self.lines += [(stream, line) for line in lines]

    def _exit(self, code) -> None:
        self.code = code
        self.ended.set()


def run(processes: Processes, code: str) -> Seen:
    seen = Seen()
    processes.start(seen.python(code))
    assert seen.ended.wait(20)
    return seen


def test_lines_and_the_exit_code(processes):
    seen = run(processes, "import sys\nprint('a\\nb')\nsys.stderr.write('no newline')\nsys.exit(3)")
    assert sorted(seen.lines) == [("stderr", b"no newline"), ("stdout", b"a"), ("stdout", b"b")]
    assert seen.code == 3


def test_every_line_arrives_before_the_exit(processes):
    seen = run(processes, "for n in range(50_000): print(n)")
    assert [line for _, line in seen.lines] == [str(n).encode() for n in range(50_000)]


def test_an_endless_line_is_split(processes):
    seen = run(processes, "print('x' * 1_000_000)")
    assert max(len(line) for _, line in seen.lines) < 256 * 1024
    assert sum(len(line) for _, line in seen.lines) == 1_000_000


def test_the_exit_code_of_a_signal_is_negative(processes):
    seen = Seen()
    child = processes.start(seen.python("import time; time.sleep(60)"))
    assert child.find_exit() is None
    child.signal_group(signal.SIGTERM)
    assert seen.ended.wait(10)
    assert seen.code == child.find_exit() == -signal.SIGTERM
    child.signal_group(signal.SIGKILL)  # the process is already gone


def test_the_whole_group_ends_with_its_leader(processes):
    seen = run(processes, "import subprocess; print(subprocess.Popen(['sleep', '300']).pid)")
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(int(seen.lines[0][1]), 0)
            time.sleep(0.01)


def test_an_unstartable_command_raises(processes):
    with pytest.raises(FileNotFoundError):
        processes.start(Seen().launch("/nosuch"))


def test_nothing_leaks(processes):
    run(processes, "pass")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        run(processes, "print(1)")
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_timers_fire_in_order(processes):
    called, done = [], threading.Event()
    processes.call_later(0.06, lambda: (called.append(2), done.set()))
    processes.call_later(0.01, lambda: called.append(1))
    assert done.wait(5) and called == [1, 2]


def test_an_error_in_one_listener_does_not_affect_others(processes, caplog):
    bad = Seen()
    processes.start(Launch(argv=("/bin/true",), cwd=Path("/"), env={}, on_lines=bad._take, on_exit=lambda code: 1 / 0))
    assert run(processes, "print(1)").code == 0


def test_describing_exits():
    assert exit_words_of(3) == "function exited with code 3"
    assert exit_words_of(0) == "function exited with code 0"
    assert exit_words_of(-signal.SIGSEGV) == "function was ended by SIGSEGV (segmentation fault)"
    assert exit_words_of(-signal.SIGKILL) == "function was ended by SIGKILL (killed)"


def test_a_process_that_cannot_be_watched_is_killed(processes, monkeypatch):
    import errno

    def refuse(pid: int) -> int:
        started.append(pid)
        raise OSError(errno.EMFILE, "Too many open files")

    started = []
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="Too many"):
        processes.start(Seen().launch("/bin/sleep", "300"))
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_childs_changes_to_its_lifeline_do_not_affect_others(processes):
    """Node makes its lifeline non-blocking."""
    fd = "int(os.environ['SLESS_LIFELINE_FD'])"
    first = run(processes, f"import os; os.set_blocking({fd}, False); print(os.get_blocking({fd}))")
    assert first.lines == [("stdout", b"False")]
    assert run(processes, f"import os; print(os.get_blocking({fd}))").lines == [("stdout", b"True")]


def test_a_flood_of_output_is_slowed_down_and_loses_nothing(processes, monkeypatch):
    """The other child's line arrives although the first fills its pipe all the time."""
    processes._output = OutputRates(2**20, 2**18)
    flood, calm = Seen(), Seen()
    began = time.monotonic()
    processes.start(replace(flood.python("import os\nfor _ in range(96): os.write(1, b'x' * 8191 + b'\\n')"), owner="a"))
    processes.start(replace(calm.python("print('calm')"), owner="b"))
    assert calm.ended.wait(10) and calm.lines == [("stdout", b"calm")]
    assert flood.ended.wait(10) and sum(len(line) + 1 for _, line in flood.lines) == 96 * 8192
    assert time.monotonic() - began > 0.3, "768 KB at 1 MB/s after a burst of 256 KB, less what the pipe holds"


def test_owners_share_their_rate_and_get_it_back():
    rates = OutputRates(100, 200)
    assert [rates.spend("a", size, now=0) for size in (150, 50)] == [0, 0]
    assert rates.spend("a", 50, now=0) == pytest.approx(0.5)
    assert rates.spend("b", 200, now=0) == 0
    assert rates.spend("a", 100, now=2) == 0
