"""gunicorn without a configuration file: values come from our settings, and the arbiter keeps one worker."""

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.errors import AppImportError
from gunicorn.glogging import Logger

from sless.config import Settings
from sless.errors import ConfigError
from sless.server.worker import FrontWorker

_KEEP_ALIVE_SEC = 75
_WORKER_SILENT_SEC = 120
"""A worker whose event loop is blocked for this long is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    settings: Settings
    factory: Callable[[Settings], object]
    fd: int
    """The listening socket."""
    listening: Callable[[], None]


class OneWorkerArbiter(Arbiter):
    """Never runs two workers, even while it replaces one."""

    def reload(self) -> None:
        self._stats["reloads"] += 1
        self.log.info("replacing the worker; new connections wait")
        self.kill_workers(15)

    def handle_ttin(self) -> None:
        self.log.warning("there is exactly one worker; ignoring the signal")

    handle_ttou = handle_usr2 = handle_ttin


class RootLogger(Logger):
    """Sends gunicorn's messages to the root logger."""

    def setup(self, cfg: Any) -> None:
        self.loglevel = logging.getLogger().level
        self.error_log.handlers = []
        self.error_log.propagate = True
        self.access_log.handlers = []
        self.access_log.propagate = False


class GunicornApp(BaseApplication):
    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        super().__init__()

    def load_config(self) -> None:
        settings = self._serving.settings
        values: dict[str, Any] = {
            "bind": f"fd://{self._serving.fd}",
            "workers": 1,
            "worker_class": FrontWorker,
            "keepalive": _KEEP_ALIVE_SEC,
            "timeout": _WORKER_SILENT_SEC,
            "graceful_timeout": settings.graceful_timeout_sec,
            "preload_app": False,
            "proc_name": "sless",
            "logger_class": RootLogger,
            "when_ready": lambda arbiter: self._serving.listening(),
            # A control socket of newer gunicorn versions.
            "control_socket_disable": True,
        }
        for name, value in values.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> object:
        """Called in the worker, after the fork. Invalid settings stop the server with their message instead of a traceback."""
        try:
            return self._serving.factory(self._serving.settings)
        except ConfigError as error:
            raise AppImportError(f"Error: {error}") from error

    def run(self) -> None:
        gc.freeze()  # scanning imported objects takes a worker 0.1 s and unshares the master's pages
        OneWorkerArbiter(self).run()
