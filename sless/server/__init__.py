"""Server: gunicorn with one uvicorn worker, and an HTTP protocol with limits and a fast path.

`serve` binds and runs · `gunicorn_app` settings and arbiter · `worker` the worker process · `limited` the HTTP protocol with its limits ·
`front_door` dispatch of requests, in order · `head` limits and rules of a request head, requests that a connection repeats · `cycle` one
request and answer over ASGI · `here` the same protocol in the process of a command, without gunicorn.

Decision: there is exactly one worker, even during its replacement: on HUP the old worker exits before the new one starts, because each of
two would remove the other's instances. The listening socket stays open in the master, so callers wait instead of failing.

Decision: the worker exits when its master is gone; otherwise a kill -9 of the master would leave a worker that holds the port.

Decision: parsing, checking and rewriting a head costs more than the rest of a call. Clients and instances repeat their heads byte by byte,
so the result is cached per connection and per instance, only for heads that the strict parser has accepted. Consequence: 16 instead of
46 µs of Python per call; a head that differs in one byte is parsed in full.
"""

from sless.server.serve import serve

__all__ = ["serve"]
