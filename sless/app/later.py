"""A WSGI application that is created after the server is ready, or by the first request if that comes sooner."""

import threading
from collections.abc import Callable, Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class Later:
    """Thread-safe. If `make` fails, each request that needs the application raises its error."""

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
