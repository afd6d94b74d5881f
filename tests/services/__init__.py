"""Real services for tests, each started by the test run and ended by its process id.

A missing service skips the test on a developer's machine and fails it if CI=true.
"""

import os
import pwd
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest

# Linux sends the --pdeathsig signal when the thread that started the process ends, not its process: a server that a test started with
# asyncio.to_thread() was killed with that test's event loop. This thread lives as long as the test run.
_starter = ThreadPoolExecutor(1, "services")


def unavailable(what: str, install: str) -> NoReturn:
    """Skips or fails the test: `install` is the Debian package that provides `what`."""
    skip_or_fail(f"{what} is missing; on Debian and Ubuntu: apt-get install {install}")


def skip_or_fail(text: str) -> NoReturn:
    """Skips the test, or fails it if CI=true. `text` says what is missing, and why."""
    if os.environ.get("CI") == "true":
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that were free a moment ago. All are bound at the same time, so that they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [item.getsockname()[1] for item in sockets]
    finally:
        for item in sockets:
            item.close()


def unprivileged_user(name: str) -> pwd.struct_passwd | None:
    """The user for a server that must not run as root: `name`, or `nobody` on a machine without it. None if we are not root."""
    if os.geteuid() != 0:
        return None
    names = [user.pw_name for user in pwd.getpwall()]
    return pwd.getpwnam(name if name in names else "nobody")


def start_following(command: list[str], signal_name: str, **options: Any) -> "subprocess.Popen[bytes]":
    """Starts a server that gets the signal (INT, TERM or KILL) when this test run is killed."""
    setpriv = shutil.which("setpriv")
    command = [setpriv, "--pdeathsig", signal_name, "--", *command] if setpriv else command
    return _starter.submit(subprocess.Popen, command, **options).result()
