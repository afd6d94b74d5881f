"""Binds the port and runs the server until a signal stops it."""

import errno
import json
import os
import resource
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from sless.children import hide_from_children
from sless.config import Settings
from sless.ending import leave
from sless.errors import ConfigError
from sless.server.gunicorn_app import GunicornApp, Serving

STATE_FILE = "server.json"
"""File in the data folder while the server runs: {"pid", "host", "port", "url"}. Written once the port is open, before `/readyz` returns
200."""


def serve(
    settings: Settings, application_factory: Callable[[Settings], object], on_listening: Callable[[int], None] | None = None
) -> NoReturn:
    """Blocks, then ends the process. Calls `application_factory` in the worker, with the bound port in `settings`, and `on_listening` in
    this process once connections are accepted. Raises ConfigError if the port cannot be bound."""
    if settings.backend == "local":
        hide_from_children()  # functions run as the same user and would find secrets of all tenants
    raise_descriptor_limit()
    listener = bind(settings.host, settings.port)
    port = listener.getsockname()[1]
    settings = replace(settings, port=port)
    state = settings.data_dir / STATE_FILE

    def listening() -> None:
        write_state(state, settings)
        if on_listening is not None:
            on_listening(port)

    code: object = None
    try:
        GunicornApp(Serving(settings=settings, factory=application_factory, fd=listener.detach(), listening=listening)).run()
    except SystemExit as ended:  # in the master, and in each worker that it forked
        code = ended.code
    finally:
        if os.getpid() == _state_pid(state):
            state.unlink(missing_ok=True)
    leave(code if isinstance(code, int) else code is not None)


def find_running(data_dir: Path) -> str | None:
    """URL, for browsers on this machine, of the server that uses this data folder; None if no server runs, or it does not listen on a
    loopback address."""
    try:
        state = json.loads((data_dir / STATE_FILE).read_text())
        os.kill(int(state["pid"]), 0)
    except (OSError, ValueError, KeyError):
        return None
    return local_url_of(str(state["host"]), int(state["port"]))


def local_url_of(host: str, port: int) -> str | None:
    """None when the server does not listen on a loopback address."""
    if host in ("", "0.0.0.0", "::", "localhost"):
        return f"http://127.0.0.1:{port}"
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}" if host == "::1" or host.startswith("127.") else None


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ConfigError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise ConfigError(_bind_failure(host, port, error)) from error
    return listener


def raise_descriptor_limit() -> int:
    """Raises the soft limit on descriptors as far as possible and returns it. Each connection takes one, and each call another."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _bind_failure(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} on {host} is in use"
        case errno.EACCES:
            return f"this user may not bind port {port} on {host}"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine (SLESS_HOST)"
    return f"cannot listen on port {port} of {host}: {error}"


def write_state(path: Path, settings: Settings) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"pid": os.getpid(), "host": settings.host, "port": settings.port, "url": settings.base_url()}
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(content))
    beside.replace(path)


def _state_pid(path: Path) -> int | None:
    try:
        return int(json.loads(path.read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return None
