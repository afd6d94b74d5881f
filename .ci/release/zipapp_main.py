# The first code of sless.pyz. Any Python may run it, so it must be valid for all of them, back to 2.7.
# It refuses unsuitable ones in one sentence instead of a later traceback, and finds a folder to unpack into.
# build_zipapp.py fills in the placeholder MACHINE.
import os
import platform
import stat
import sys
import tempfile

MACHINE = "@MACHINE@"
TRIED = "_SLESS_PYZ_TRIED"


def fail(text):
    sys.stderr.write("sless: " + text + "\n")
    sys.exit(1)


def check_python():
    if sys.version_info[:2] == (3, 11):
        return
    other = find_python()
    if other and not os.environ.get(TRIED):
        os.environ[TRIED] = "1"
        os.execv(other, [other] + sys.argv)
    fail(
        "Python 3.11 is needed, %s is %d.%d. Install it (Debian, Ubuntu: apt-get install python3.11) and run: python3.11 %s"
        % (sys.executable, sys.version_info[0], sys.version_info[1], " ".join(sys.argv))
    )


def find_python():
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, "python3.11")
        if folder and os.access(path, os.X_OK):
            return path
    return None


def check_machine():
    if not sys.platform.startswith("linux") or platform.machine() != MACHINE:
        fail(
            "this file was built for Linux on %s, this is %s on %s. Build one here: make pyz"
            % (MACHINE, platform.system(), platform.machine())
        )


def choose_root():
    """A folder below the user's cache folder; if HOME is missing or read-only, one in the temporary folder instead."""
    if os.environ.get("SHIV_ROOT"):
        return
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = os.path.join(cache, "sless")
    os.environ["SHIV_ROOT"] = root if is_writable(root) else temporary_root()


def is_writable(folder):
    if not os.path.isabs(folder):
        return False
    try:
        os.makedirs(folder, 0o700)
    except OSError:
        pass
    return os.access(folder, os.W_OK | os.X_OK)


def temporary_root():
    """One folder per user, closed to others, who could make us run their code if they could write into it."""
    folder = os.path.join(tempfile.gettempdir(), "sless-%d" % os.getuid())
    try:
        os.mkdir(folder, 0o700)
    except OSError:
        pass
    try:
        found = os.lstat(folder)
    except OSError as error:
        fail("no folder to unpack into: %s. Name one: SHIV_ROOT=/some/folder" % error)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        fail("%s is not a folder of this user alone. Remove it or name another: SHIV_ROOT=/some/folder" % folder)
    return folder


def hold_and_clean():
    """Marks the folder of this build as used while the process runs. The first start of a build removes the folders of earlier builds of
    this file, unless a process still uses them."""
    import json
    import zipfile

    if not zipfile.is_zipfile(sys.argv[0]):
        return None
    root, file_name = os.environ["SHIV_ROOT"], os.path.basename(os.path.realpath(sys.argv[0]))
    with zipfile.ZipFile(sys.argv[0]) as archive:
        own = "%s_%s" % (file_name, json.loads(archive.read("environment.json").decode())["build_id"])
    held = lock(root, own, shared=True)
    if held and not os.path.isdir(os.path.join(root, own)):
        for name in os.listdir(root):
            if name.startswith(file_name + "_") and not name.startswith(own):
                remove_unused(root, name)
    return held


def remove_unused(root, name):
    import shutil

    mark = lock(root, name, shared=False)
    if mark:
        shutil.rmtree(os.path.join(root, name), ignore_errors=True)
        os.unlink(mark.name)
        mark.close()


def lock(root, name, shared):
    """The locked file that marks a folder as used; None if another process holds the lock, or the folder is not writable."""
    import fcntl

    try:
        mark = open(os.path.join(root, "." + name + "_used"), "a")
        fcntl.flock(mark, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (IOError, OSError):
        return None
    return mark


check_python()
os.environ.pop(TRIED, None)
check_machine()
choose_root()
try:
    HELD = hold_and_clean()
except (IOError, OSError):
    HELD = None  # a start must not fail because old builds cannot be removed
# The unpacked files are ours alone, and without bytecode each start takes three seconds longer, here and in the server that `demo` starts.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import _bootstrap  # noqa: E402 - it reads the environment, which must be complete first

_bootstrap.bootstrap()
