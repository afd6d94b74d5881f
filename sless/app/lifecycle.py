"""Start and end of the parts: a WSGI application that is created after the server is ready, and shutdown in steps."""

import logging
import threading
from collections.abc import Callable, Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_log = logging.getLogger(__name__)


class Later:
    """An application that is created by `load`, or by the first request if that comes sooner. Thread-safe. If `make` fails, each request
    that needs the application raises its error."""

    def __init__(self, make: Callable[[], WSGIApplication]) -> None:
        self._make = make
        self._made: WSGIApplication | None = None
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return (self._made or self.load())(environ, start_response)

    def load(self) -> WSGIApplication:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


def run_steps(*steps: Callable[[], object]) -> None:
    """Runs each step even if an earlier one failed."""
    for step in steps:
        try:
            step()
        except Exception:
            _log.exception("shutdown: %s failed; the next steps follow", getattr(step, "__qualname__", step))
