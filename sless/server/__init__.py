"""Server: gunicorn with one uvicorn worker, and the front door that uvicorn does not have.

`serve` binds and runs · `gunicorn_app` settings and arbiter · `worker` the worker process · `limited` the HTTP protocol with its limits ·
`front_door` what is served, in which order · `head` limits and rules of a request's head · `cycle` one request and answer over ASGI ·
`here` the same door in the process of a command, without gunicorn.

Decision: exactly one worker, also while it is replaced: on HUP the old worker ends before the new one begins, because two would each
clean up the other's instances. The listening socket stays open in the master, so callers wait instead of failing.

Decision: the worker leaves when its master has changed; else a kill -9 of the master would leave a worker that holds the port.
"""

from sless.server.serve import serve

__all__ = ["serve"]
