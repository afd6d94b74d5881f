import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sless.errors import ConfigError
from sless.host.rundir import MAX_SOCKET_PATH_BYTES, RunDir, default_base, remove_tree, start_ticks_of
from tests.services import unavailable


@pytest.fixture
def base():
    folder = Path(tempfile.mkdtemp(prefix="slr-", dir="/tmp"))
    yield folder / "run"
    shutil.rmtree(folder)


@pytest.fixture
def sleeper():
    """Starts `sleep` with an environment in its own process group."""
    started = []

    def start(**environment):
        started.append(subprocess.Popen(["/bin/sleep", "300"], process_group=0, env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def died(run_dir: RunDir) -> None:
    """Leave the state of a server after kill -9: the lock is free, the folder exists."""
    os.close(run_dir._lock)


def test_folders_are_private(base):
    run_dir = RunDir(base, Path("/data"))
    home = run_dir.make_home("inst")
    for folder in (base, run_dir.path, home.root, home.home, home.tmp):
        assert folder.stat().st_mode & 0o777 == 0o700
    run_dir.close()
    assert not base.exists()


def test_a_socket_path_is_short(base):
    run_dir = RunDir(base, Path("/data"))
    path = run_dir.socket_path("abcdefghijklmnop")
    assert path.parent.name == "abcdefgh.d" and len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES
    run_dir.close()


def test_a_long_folder_is_refused(base):
    with pytest.raises(ConfigError, match="SLESS_RUN_DIR: expected a path of at most 78 bytes"):
        RunDir(base / ("x" * 80), Path("/data"))


def test_a_folder_of_another_user_is_refused(base):
    if os.getuid() != 0:
        unavailable("root, who alone can make one", "nothing; run the tests as root")
    base.mkdir()
    os.chown(base, 12345, 12345)
    with pytest.raises(ConfigError, match=r"found .* of user 12345"):
        RunDir(base, Path("/data"))


def test_a_link_is_refused(base, tmp_path):
    base.symlink_to(tmp_path)
    with pytest.raises(ConfigError):
        RunDir(base, Path("/data"))


def test_the_default_is_short_and_one_per_data_folder():
    assert default_base(Path("/a")) != default_base(Path("/b"))
    assert len(os.fsencode(default_base(Path("/" + "x" * 300)))) < 70


def test_leftovers_of_a_dead_server_are_removed(base, sleeper):
    dead = RunDir(base, Path("/data"))
    noted = sleeper()
    dead.note_pid(noted.pid)
    home = dead.make_home("inst")
    marked = sleeper(HOME=str(home.home))
    stranger = sleeper(HOME="/root")
    died(dead)
    alive = RunDir(base, Path("/data"))
    assert alive.clean_leftovers() == 2
    assert (noted.wait(5), marked.wait(5)) == (-signal.SIGKILL, -signal.SIGKILL)
    assert stranger.poll() is None
    assert not dead.path.exists()
    alive.close()


def test_a_recycled_pid_is_left_alone(base, sleeper):
    dead = RunDir(base, Path("/data"))
    process = sleeper()
    (dead.path / "pids" / str(process.pid)).write_text(str(start_ticks_of(process.pid) - 1))
    died(dead)
    alive = RunDir(base, Path("/data"))
    assert alive.clean_leftovers() == 0
    assert process.poll() is None
    alive.close()


def test_another_running_server_is_left_alone(base, sleeper):
    first = RunDir(base, Path("/data"))
    process = sleeper()
    first.note_pid(process.pid)
    second = RunDir(base, Path("/data"))
    assert second.clean_leftovers() == 0
    assert process.poll() is None and first.path.exists()
    assert second.is_alive(first.owner) and second.is_alive(second.owner) and not second.is_alive("nosuch")
    second.close()
    first.close()


def test_the_lock_is_not_inherited(base):
    run_dir = RunDir(base, Path("/data"))
    code = "import os; print([os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if int(fd) > 2])"
    shown = subprocess.run([sys.executable, "-I", "-c", code], close_fds=False, capture_output=True, text=True, check=False)
    assert "lock" not in shown.stdout
    run_dir.close()


def test_start_ticks():
    assert start_ticks_of(os.getpid()) > 0
    assert start_ticks_of(2**22 - 1) is None


def test_remove_tree_removes_read_only_folders(tmp_path):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "file").write_text("x")
    (folder / "link").symlink_to("/nosuch")
    (folder / "file").chmod(0o000)
    folder.chmod(0o500)
    remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    remove_tree(tmp_path / "a")


def test_strays_are_processes_whose_home_is_gone(base, sleeper):
    run_dir = RunDir(base, Path("/data"))
    gone, there = run_dir.make_home("gone"), run_dir.make_home("there")
    stray, kept = sleeper(TMPDIR=str(gone.tmp)), sleeper(TMPDIR=str(there.tmp))
    assert run_dir.end_strays() == 0
    remove_tree(gone.root)
    assert run_dir.end_strays() == 1
    assert stray.wait(5) == -signal.SIGKILL and kept.poll() is None
    run_dir.close()
    assert kept.wait(5) == -signal.SIGKILL
