"""Serves an application in the process of a command: the front door without gunicorn."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn
import uvloop

from sless.errors import ConfigError
from sless.server.front_door import FrontDoor
from sless.server.worker import FrontWorker

_SHUTDOWN_SEC = 2
"""Open calls are aborted after this time."""
_SWITCH_INTERVAL_SEC = 1e-3


def serve_here(application: object, listener: socket.socket) -> None:
    """Blocks until SIGINT, SIGTERM or SIGHUP and the end of the application's lifespan. A second signal does not wait for open calls.
    Raises ConfigError when the application cannot start."""
    sys.setswitchinterval(_SWITCH_INTERVAL_SEC)
    options = FrontWorker.CONFIG_KWARGS | {"http": FrontDoor, "timeout_graceful_shutdown": _SHUTDOWN_SEC, "log_config": None}
    server = _Server(uvicorn.Config(application, **options))  # type: ignore[arg-type]  # one dict for options of many types
    try:
        uvloop.run(server.serve(sockets=[listener]))
    except SystemExit as error:
        raise ConfigError("the server cannot start") from error


class _Server(uvicorn.Server):
    """uvicorn's own handling raises the signal again at the end, and ignores SIGHUP."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
