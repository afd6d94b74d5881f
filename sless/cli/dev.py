"""`sless dev`: serve a folder and reload it at each save."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from sless.cli.options import EnvPair
from sless.cli.server_commands import ServerCommand
from sless.errors import ConfigError

PORT = 9000
HOST = "127.0.0.1"


@click.command(cls=ServerCommand)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=".")
@click.option("--name", metavar="NAME", help="Function name; default: from the folder's name.")
@click.option("--port", type=click.IntRange(0, 65535), help=f"Port to listen on; default: {PORT} or the next free one.")
@click.option("--runtime", metavar="R", help="python3.11, nodejs20 or go1.23; default: guessed from the files.")
@click.option("--entrypoint", metavar="MODULE.FUNCTION", help="Function to call; default: handler.handle.")
@click.option("--env", "env_vars", type=EnvPair(), multiple=True, metavar="K=V", help="Set an environment variable; repeatable.")
@click.option("--build-env", type=EnvPair(), multiple=True, metavar="K=V", help="Variable for pip or npm only; repeatable.")
@click.option("--memory", type=int, metavar="MB", help="Memory of an instance; default: 128.")
@click.option("--timeout", type=int, metavar="SEC", help="Time limit of a call; default: 30.")
@click.option("--event-format", metavar="F", help="sless, aws-http-v1 or aws-http-v2.")
def dev(folder: Path, **options: Any) -> int:
    """Serve the code in DIR while you work on it, and reload it at each save.

    Needs no server and no token. Shows the function's output, calls and tracebacks; installs dependencies when their file changes. Ctrl-C
    stops it; only installed dependencies stay, in the cache folder.

    \b
    Examples:
      sless dev hello
      sless dev . --port 8080 --env GREETING=Hi
      sless dev api --entrypoint app.main --event-format aws-http-v2
    """
    from sless import log
    from sless.cli.dev_screen import DevScreen
    from sless.dev import serve_folder

    request = _request_of(folder, options)
    log.configure("warning", as_json=False)
    with _signals_interrupt(), _listener(options["port"]) as listener:
        click.echo(f"{request.name} ({request.spec.runtime}, {request.spec.entrypoint}) from {request.folder}; Ctrl-C to stop")
        click.echo(f"http://{HOST}:{listener.getsockname()[1]}/fn/dev/{request.name}")
        serve_folder(request, listener, DevScreen())
    return 0


def _request_of(folder: Path, options: dict[str, Any]) -> Any:
    """Raises PackingError for a folder that cannot be served, Invalid that lists every wrong option."""
    from sless.client.guess import guess_runtime
    from sless.client.packing import list_files, notice_of
    from sless.dev import DevRequest
    from sless.domain.spec import parse_function

    paths = list_files(folder)
    if notice := notice_of(folder, paths):
        click.echo(notice, err=True)
    root = folder.resolve()
    names = {"entrypoint": "entrypoint", "memory": "memory_mb", "timeout": "timeout_sec", "event_format": "event_format"}
    named = parse_function(
        {
            "name": options["name"] or name_of(root),
            "runtime": options["runtime"] or guess_runtime(root),
            "env_vars": dict(options["env_vars"]),
            "build_env": dict(options["build_env"]),
            **{field: options[option] for option, field in names.items() if options[option] is not None},
        }
    )
    return DevRequest(folder=root, name=named.name, spec=named.spec, build_env=named.spec.build_env, cache_dir=_cache_dir())


def name_of(folder: Path) -> str:
    """A valid function name derived from a folder's name."""
    words = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).lstrip("-0123456789")
    return words[:40].strip("-") or "function"


def _cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME") or "/tmp", ".cache")
    return Path(base).absolute() / "sless-dev"


@contextmanager
def _listener(port: int | None) -> Iterator[socket.socket]:
    """A socket on `port`, or on the first free one if None. Raises ConfigError."""
    from sless.server.serve import bind

    wanted = [port] if port is not None else [*range(PORT, PORT + 10), 0]
    for candidate in wanted:
        try:
            listener = bind(HOST, candidate)
        except ConfigError:
            if candidate == wanted[-1]:
                raise
            continue
        with listener:
            yield listener
            return


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP act like Ctrl-C until the server installs its own handlers."""
    before = {number: signal.signal(number, _raise_interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
