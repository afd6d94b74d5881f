# The first code of sless.pyz, run by whatever Python somebody has: so it must be readable for each of them, back to 2.7.
# It refuses in one sentence what would end in a traceback later, and finds a folder to unpack into.
# The placeholder MACHINE is filled in by build_zipapp.py.
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
    """Unpacks below the cache folder of the user; a HOME that is missing or read-only gets a folder in the temporary one instead."""
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
    """One folder per user, closed to others: who could write into it could have us run their code."""
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


check_python()
os.environ.pop(TRIED, None)
check_machine()
choose_root()
# What is unpacked is ours alone, and without bytecode each start takes three seconds more, here and in the server that `demo` starts.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import _bootstrap  # noqa: E402 - after the environment it reads is as it must be

_bootstrap.bootstrap()
