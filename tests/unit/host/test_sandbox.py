"""Children in bubblewrap: their access, their ends, and the messages when bubblewrap does not work."""

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sless.errors import ConfigError
from sless.host import sandbox
from sless.host.memory import used_bytes_by_group
from sless.host.process import Child, Launch, Processes
from sless.host.rundir import Home, RunDir
from sless.host.sandbox import Access, Sandbox, code_of_sandboxed, sandbox_of, sandbox_text_of, warn_without_sandbox
from tests.contract.backend_harness import wait_until
from tests.services import unavailable


class Box:
    """Starts children with one home to write to, and `secret`, a file beside it."""

    def __init__(self, folder: Path) -> None:
        self.run_dir = RunDir(folder / "run", folder)
        self.processes = Processes(self.run_dir, Sandbox(shutil.which("bwrap") or unavailable("bubblewrap", "bubblewrap")))
        self.home: Home = self.run_dir.make_home("mine")
        self.secret = self.run_dir.make_home("others").home / "secret"
        self.secret.write_text("hidden")
        self.lines: list[str] = []
        self.codes: list[int] = []
        self.ended = threading.Event()

    def start(self, code: str) -> Child:
        self.ended.clear()
        access = Access(reads=(), writes=(self.home.root,), tmp=self.home.tmp)
        argv = (sys.executable, "-I", "-S", "-c", code)
        launch = Launch(argv=argv, cwd=self.home.home, env={"PATH": "/usr/bin"}, on_lines=self._take, on_exit=self._exit, access=access)
        return self.processes.start(launch)

    def run(self, code: str) -> tuple[int, list[str]]:
        self.lines.clear()
        self.start(code)
        assert self.ended.wait(30)
        return self.codes[-1], self.lines

    def _take(self, stream, lines) -> None:
        self.lines += [line.decode() for line in lines]

    def _exit(self, code: int) -> None:
        self.codes.append(code)
        self.ended.set()

    def close(self) -> None:
        self.processes.close()
        self.run_dir.close()


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    folder = Path(tempfile.mkdtemp(prefix="slb-", dir="/tmp"))
    box = Box(folder)
    yield box
    box.close()
    shutil.rmtree(folder, ignore_errors=True)


TRY = """
import os, sys
def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        return type(error).__name__
"""


WRITABLE = """
tops = [top for top in ("/proc", "/proc/sys/kernel", "/proc/fs") if os.path.isdir(top)]
files = [os.path.join(top, name) for top in tops for name in os.listdir(top)]
print([file for file in files if os.path.isfile(file) and isinstance(tried(os.open, file, os.O_WRONLY), int)])
"""


def test_it_sees_only_its_own_files_and_processes(box):
    code, lines = box.run(
        f"{TRY}\nprint(tried(open, {str(box.secret)!r}), tried(os.listdir, '/work'), tried(open, '/etc/shadow'))"
        f"\nprint([name for name in os.listdir('/proc') if name.isdigit()], os.getpid())"
        f"\nprint(tried(os.kill, {os.getpid()}, 0))"
    )
    assert code == 0
    assert lines == ["FileNotFoundError FileNotFoundError FileNotFoundError", "['1', '2'] 2", "ProcessLookupError"]


def test_it_writes_only_to_its_own_folder(box):
    places = ["/x", "/usr/x", "/etc/x", "/dev/x/y", str(box.home.root.parent / "others" / "x"), "/proc/sys/kernel/core_pattern"]
    code, lines = box.run(
        f"{TRY}\nprint([place for place in {places!r} if not isinstance(tried(os.open, place, os.O_WRONLY | os.O_CREAT), str)])"
        "\nopen('/tmp/a', 'w').write('1')\nopen('b', 'w').write('2')"
    )
    assert (code, lines) == (0, ["[]"])
    assert ((box.home.tmp / "a").read_text(), (box.home.home / "b").read_text()) == ("1", "2")


def test_it_has_no_capabilities(box):
    """Children of a root server are root too, but without capabilities."""
    _, lines = box.run("print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'NoNewPrivs'))])")
    assert lines == ["0000000000000000 1"]
    code, lines = box.run(TRY + WRITABLE)
    assert code == 0
    assert lines == ["[]"]


@pytest.mark.parametrize(
    ("ending", "code"),
    [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", -9), ("os.kill(os.getpid(), 11)", -11), ("sys.exit(200)", 200), ("pass", 0)],
)
def test_exit_codes_are_those_of_the_child(box, ending, code):
    assert box.run(f"import os, sys\n{ending}")[0] == code


@pytest.mark.parametrize(
    ("found", "code"), [(0, 0), (1, 1), (127, 127), (128, 128), (137, -9), (139, -11), (129, 129), (192, 192), (-9, -9)]
)
def test_codes(found, code):
    assert code_of_sandboxed(found) == code


def test_sigterm_reaches_the_child_and_not_the_sandbox(box):
    box.lines.clear()
    child = box.start(
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(3)))\nprint('up', flush=True)"
        "\nsignal.pause()"
    )
    wait_until(lambda: box.lines == ["up"], "it runs")
    child.signal_group(signal.SIGTERM)
    assert box.ended.wait(10)
    assert (box.lines, box.codes[-1]) == (["up", "bye"], 3)


def test_memory_is_counted_and_killing_ends_everything(box):
    box.lines.clear()
    child = box.start(
        "import os, time\nheld = bytearray(40_000_000)\npid = os.fork()\nif not pid: os.setsid()\nprint('up', flush=True)\ntime.sleep(300)"
    )
    wait_until(lambda: box.lines == ["up", "up"], "both run")
    assert used_bytes_by_group({child.pid})[child.pid] > 39_000_000
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    inner = Path(f"/proc/{children[0]}/task/{children[0]}/children").read_text().split()
    assert int(Path(f"/proc/{inner[0]}/oom_score_adj").read_text()) == 700
    grandchildren = Path(f"/proc/{inner[0]}/task/{inner[0]}/children").read_text().split()
    child.signal_group(signal.SIGKILL)
    assert box.ended.wait(10)
    assert box.codes[-1] == -9
    # Including a process that has left the group, because the namespace ends.
    wait_until(lambda: not [pid for pid in (*children, *inner, *grandchildren) if Path(f"/proc/{pid}/cmdline").exists()], "all have ended")


def test_a_child_without_access_is_not_started(box):
    launch = Launch(argv=("/bin/true",), cwd=Path("/"), env={}, on_lines=box._take, on_exit=box._exit)
    with pytest.raises(ValueError, match="without saying what it may access"):
        box.processes.start(launch)


@pytest.fixture
def without_bubblewrap(monkeypatch, tmp_path):
    """`broken`: a bwrap that fails as in a container without user namespaces."""

    def set_path(broken: bool) -> None:
        if broken:
            (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
            (tmp_path / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        sandbox.find_bubblewrap.cache_clear()

    yield set_path
    monkeypatch.undo()
    sandbox.find_bubblewrap.cache_clear()


@pytest.mark.parametrize(("broken", "reason"), [(False, "bubblewrap is not installed"), (True, "No permissions to create new namespace")])
def test_without_bubblewrap(without_bubblewrap, broken, reason, caplog):
    without_bubblewrap(broken)
    assert sandbox_of("auto") is None
    assert reason in sandbox_text_of("auto") and sandbox_text_of("auto").startswith("none (")
    warn_without_sandbox("auto")
    assert reason in caplog.text and "SECURITY.md" in caplog.text
    with pytest.raises(ConfigError, match=f"SLESS_LOCAL_SANDBOX=bwrap: .*{reason}"):
        sandbox_of("bwrap")
    assert (sandbox_of("none"), sandbox_text_of("none")) == (None, "none (SLESS_LOCAL_SANDBOX=none)")
