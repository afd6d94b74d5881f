import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from sless.domain.exits import exit_words_of
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


def test_every_line_is_there_when_the_exit_is_told(processes):
    seen = run(processes, "for n in range(50_000): print(n)")
    assert [line for _, line in seen.lines] == [str(n).encode() for n in range(50_000)]


def test_an_endless_line_is_broken_up(processes):
    seen = run(processes, "print('x' * 1_000_000)")
    assert max(len(line) for _, line in seen.lines) < 256 * 1024
    assert sum(len(line) for _, line in seen.lines) == 1_000_000


def test_a_signal_is_negative(processes):
    seen = Seen()
    child = processes.start(seen.python("import time; time.sleep(60)"))
    assert child.find_exit() is None
    child.signal_group(signal.SIGTERM)
    assert seen.ended.wait(10)
    assert seen.code == child.find_exit() == -signal.SIGTERM
    child.signal_group(signal.SIGKILL)  # nothing is there any more


def test_the_whole_group_ends_with_its_leader(processes):
    seen = run(processes, "import subprocess; print(subprocess.Popen(['sleep', '300']).pid)")
    with pytest.raises(ProcessLookupError):
        for _ in range(200):
            os.kill(int(seen.lines[0][1]), 0)
            time.sleep(0.01)


def test_what_cannot_be_started_raises(processes):
    with pytest.raises(FileNotFoundError):
        processes.start(Seen().launch("/nosuch"))


def test_nothing_leaks(processes):
    run(processes, "pass")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        run(processes, "print(1)")
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_timers_come_in_order(processes):
    called, done = [], threading.Event()
    processes.call_later(0.06, lambda: (called.append(2), done.set()))
    processes.call_later(0.01, lambda: called.append(1))
    assert done.wait(5) and called == [1, 2]


def test_one_listeners_mistake_harms_no_other(processes, caplog):
    bad = Seen()
    processes.start(Launch(argv=("/bin/true",), cwd=Path("/"), env={}, on_lines=bad._take, on_exit=lambda code: 1 / 0))
    assert run(processes, "print(1)").code == 0


def test_exits_in_words():
    assert exit_words_of(3) == "function exited with code 3"
    assert exit_words_of(0) == "function exited with code 0"
    assert exit_words_of(-signal.SIGSEGV) == "function was ended by SIGSEGV (segmentation fault)"
    assert exit_words_of(-signal.SIGKILL) == "function was ended by SIGKILL (killed)"


def test_what_cannot_be_watched_does_not_run(processes, monkeypatch):
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


def test_what_a_child_does_to_its_lifeline_does_not_reach_the_others(processes):
    """Node makes it non-blocking."""
    fd = "int(os.environ['SLESS_LIFELINE_FD'])"
    first = run(processes, f"import os; os.set_blocking({fd}, False); print(os.get_blocking({fd}))")
    assert first.lines == [("stdout", b"False")]
    assert run(processes, f"import os; print(os.get_blocking({fd}))").lines == [("stdout", b"True")]
