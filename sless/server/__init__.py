"""Server: gunicorn with one uvicorn worker, and an HTTP protocol with limits and a fast path.

`serve` binds and runs · `gunicorn_app` settings and arbiter · `worker` the worker process · `limited` the HTTP protocol with its limits ·
`front_door` dispatch of requests, in order · `head` limits and rules of a request head · `cycle` one request and answer over ASGI ·
`here` the same protocol in the process of a command, without gunicorn.

Decision: exactly one worker, also while it is replaced: on HUP the old worker ends before the new one starts, because each of two would
remove the other's instances. The listening socket stays open in the master, so callers wait instead of failing.

Decision: the worker exits when its master is gone; otherwise a kill -9 of the master would leave a worker that holds the port.
"""

from sless.server.serve import serve

__all__ = ["serve"]
