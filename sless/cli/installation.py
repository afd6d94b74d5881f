"""For commands that change the installation without the REST interface: the actor in the audit trail, and the lock that allows one server
per data folder, because two would share instances, sockets and the SQLite file.
"""

import fcntl
import os
import pwd
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from sless import ids
from sless.actor import Actor
from sless.errors import ConfigError

LOCK_NAME = "server.lock"
PATIENCE_SEC = 5.0
"""Time to wait, since a worker whose master was killed holds the lock until it notices."""


@contextmanager
def hold_data_folder(folder: Path, patience_sec: float = PATIENCE_SEC) -> Iterator[None]:
    """Locks the folder. The kernel releases the lock when its processes end, even by kill -9. Raises ConfigError while another server holds
    it."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = open(folder / LOCK_NAME, "a+")  # noqa: SIM115 - closed by the `with` below; only opening it is inside the `try`
    except OSError as error:
        raise ConfigError(f"SLESS_DATA_DIR: cannot use {folder}: {error.strerror}") from error
    with file:
        _lock(file, folder, time.monotonic() + patience_sec)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _lock(file: TextIO, folder: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            if time.monotonic() > deadline:
                raise ConfigError(
                    f"the data folder {folder} is in use by another sless server (process {holder}): "
                    "stop it, or choose another folder with --data-dir"
                ) from None
            time.sleep(0.1)
        except OSError as error:
            raise ConfigError(f"SLESS_DATA_DIR: cannot lock {folder}: {error.strerror}") from error


def shell_actor() -> Actor:
    """`shell:` and the name of the system's user; the address is the name of this machine."""
    user = os.getuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:  # containers may run as a user without a name
        name = str(user)
    return Actor(sub=f"shell:{name}", address=socket.gethostname(), request_id=ids.new_call_id())
