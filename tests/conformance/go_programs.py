"""Compiles Go handlers as the local builder does; caches programs in `build/` by a hash of their sources."""

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sless.builder.failures import BuildFailed
from sless.builder.go import failure_of
from sless.builder.go_compilation import GoSource, make_compilation
from sless.builder.go_toolchain import find_toolchain, go_environment_of
from sless.host.material import PROGRAM
from sless.host.rundir import Home

GO = "go1.23"
ROOT = Path(__file__).resolve().parents[2]
RUNTIME_DIR = ROOT / "runtimes" / GO
KEPT = ROOT / "build" / "go-programs"
HOOKS = True
"""Whether package os gets its hooks; False behaves like a toolchain with unexpected sources."""


def require_go() -> None:
    """Raises LookupError when Go is not installed."""
    try:
        find_toolchain()
    except BuildFailed as missing:
        raise LookupError(str(missing)) from missing


def go_entrypoint_of(entrypoint: str) -> str:
    """`events.echo_async` → `events/events.EchoAsync`: Go has a folder for each package, and exports names with a capital letter."""
    module, _, name = entrypoint.rpartition(".")
    if not module:
        return entrypoint
    return f"{module if '/' in module else f'{module}/{module}'}.{go_name_of(name)}"


def go_name_of(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def go_program(code_dir: Path, entrypoint: str) -> Path:
    """The compiled program of a handler. Raises BuildFailed."""
    return _program(
        GoSource(code_dir=code_dir, entrypoint=entrypoint, runtime_dir=RUNTIME_DIR), _content_of(code_dir), _content_of(RUNTIME_DIR), HOOKS
    )


def _content_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@functools.lru_cache(maxsize=500)
def _program(source: GoSource, code: str, runtime: str, hooks: bool) -> Path:
    key = hashlib.sha256("\0".join([source.entrypoint, code, runtime, find_toolchain().version, str(hooks)]).encode()).hexdigest()[:24]
    program = KEPT / f"{re.sub(r'[^a-zA-Z]', '-', source.entrypoint)}-{key}"
    if program.exists():
        return program
    KEPT.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time():
        if not program.exists():
            folder = Path(tempfile.mkdtemp(prefix=".tmp-", dir=KEPT))
            try:
                _compile(folder, source, hooks).rename(program)
            finally:
                shutil.rmtree(folder)
    return program


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Among all workers: go uses every core anyway, and its cache lets two processes compile the standard library twice."""
    with (KEPT / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(folder: Path, source: GoSource, hooks: bool) -> Path:
    environment = go_environment_of(folder / "go", Home(root=folder, home=folder, tmp=folder), "", {})
    environment["GOCACHE"] = os.environ.get("GOCACHE", str(ROOT / "build" / "go-cache"))
    compilation = make_compilation(source, find_toolchain(), folder, environment)
    argv = [part for part in compilation.argv if hooks or not part.startswith(("-overlay", "-tags"))]
    done = subprocess.run(argv, cwd=compilation.code, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise BuildFailed(failure_of(source.entrypoint, done.stderr.splitlines(), compilation.prepared.functions, done.returncode))
    return compilation.made / PROGRAM


if __name__ == "__main__":
    # `make test` fills Go's cache before the workers start: compiling the standard library takes half a minute.
    with contextlib.suppress(BuildFailed):  # without Go, the tests that need it say so
        go_program(ROOT / "tests" / "bench" / "functions" / "go", "handler.Handle")
