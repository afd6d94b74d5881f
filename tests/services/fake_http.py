"""Fake HTTP servers: a function from request to response, on a free port, each request in a thread.

Werkzeug's server, which pytest-httpserver builds on as well. That adds rules by path and method; our fakes keep state, wait or send slowly,
and would give it a function anyway.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from werkzeug import Request, Response
from werkzeug.serving import WSGIRequestHandler, make_server


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serving(answer: Callable[[Request], Response]) -> Iterator[str]:
    """The URL of the server, without a slash at the end."""
    server = make_server("127.0.0.1", 0, Request.application(answer), threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
