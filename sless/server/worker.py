"""The worker process: uvicorn under gunicorn, with our HTTP protocol."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from uvicorn_worker import UvicornWorker

from sless.server.front_door import FrontDoor

_log = logging.getLogger(__name__)
_SWITCH_INTERVAL_SEC = 1e-4
"""How long a busy thread may keep the interpreter lock; with Python's 5 ms, one such thread makes the proxy 50 times slower."""
_YOUNG_OBJECTS = 20_000
"""Between garbage collections. Call records live until they are written; scanning them every 700 objects is wasteful."""
_POLL_SEC = 0.5
_SHUTDOWN_MARGIN_SEC = 5
"""Part of the graceful time-out reserved for the steps after the last call: history, schedulers, instances."""


class FrontWorker(UvicornWorker):
    CONFIG_KWARGS: dict[str, Any] = {  # noqa: RUF012 - the base class requires this name
        "loop": "uvloop",
        "http": FrontDoor,
        "ws": "none",
        "lifespan": "on",
        "interface": "asgi3",
        "proxy_headers": False,
        "server_header": False,
        "date_header": False,
        "access_log": False,
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.config.timeout_graceful_shutdown = max(1, self.cfg.graceful_timeout - _SHUTDOWN_MARGIN_SEC)
        logging.getLogger("uvicorn.error").propagate = True

    def init_process(self) -> None:
        sys.setswitchinterval(_SWITCH_INTERVAL_SEC)
        gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
        super().init_process()

    def run(self) -> None:
        # Not earlier: creating the application forks, which is unsafe in a process with threads.
        threading.Thread(target=self._leave_without_master, name="master watch", daemon=True).start()
        super().run()

    def _install_sigquit_handler(self) -> None:
        """Stops on SIGQUIT, which the master sends for SIGINT. The base class only sets a flag that uvicorn never reads, so the worker
        would be killed at the end of the graceful time-out."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGQUIT, os.kill, os.getpid(), signal.SIGTERM)

    def _leave_without_master(self) -> None:
        while os.getppid() == self.ppid:
            time.sleep(_POLL_SEC)
        _log.error("the master process is gone; stopping the worker")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(self.cfg.graceful_timeout)
        os._exit(1)
