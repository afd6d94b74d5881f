"""Command and environment of a runtime on this machine."""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sless import assets, config
from sless.domain.ports import BuildSpec, Revision
from sless.domain.runtimes import RUNTIMES
from sless.host.rundir import Home

LEAST_NODE = 20
_NO_NODE = "runtime nodejs20 is not available on this machine"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class RuntimeMissing(Exception):
    """This machine cannot run the runtime. The text tells users what is missing."""


class Commands:
    """Commands by runtime name; `folder` holds the runtimes (default: the bundled ones)."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def command_of(self, runtime: str, program: Path | None = None) -> tuple[str, ...]:
        """`program`: the executable of a compiled language. Raises RuntimeMissing."""
        known = RUNTIMES.get(runtime)
        match known.language if known else None:
            case "python":
                # No environment, user site or site-packages, to hide the libraries of the server and the machine.
                return (sys.executable, "-E", "-s", "-S", self._script(runtime, "runtime.py"))
            case "node":
                return (node_path(), self._script(runtime, "runtime.mjs"))
            case "go":
                if program is None:
                    raise RuntimeMissing(f"this version has not been compiled for {runtime}: upload it again")
                return (str(program),)
        raise RuntimeMissing(f"runtime {runtime} is not available on this machine")

    def reads_of(self, argv: Sequence[str]) -> tuple[Path, ...]:
        """Folders of the runtime that this command needs; a compiled program includes its runtime."""
        folder = (self._folder or assets.runtimes_dir()).absolute()
        return tuple(folder / name for name in RUNTIMES if any(text.startswith(f"{folder / name}{os.sep}") for text in argv))

    def _script(self, runtime: str, name: str) -> str:
        script = (self._folder or assets.runtimes_dir()).absolute() / runtime / name
        if not script.is_file():
            raise RuntimeMissing(f"runtime {runtime} is not available on this machine: its {name} is missing")
        return str(script)


def node_path() -> str:
    """Absolute path of Node.js on the server's PATH. Raises RuntimeMissing if it is missing or too old."""
    path = shutil.which("node", path=config.passed_on(("PATH",)).get("PATH", _PATH))
    if path is None:
        raise RuntimeMissing(f'{_NO_NODE}: expected Node.js {LEAST_NODE} or newer, found no "node" on the PATH')
    found = _node_version(path, os.stat(path).st_mtime_ns)
    if found < LEAST_NODE:
        raise RuntimeMissing(f"{_NO_NODE}: expected Node.js {LEAST_NODE} or newer, found {found} ({path})")
    return path


@functools.lru_cache(maxsize=8)
def _node_version(path: str, _changed_at: int) -> int:
    """The major version. Cached until the file changes."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeMissing(f"{_NO_NODE}: {path} does not run: {error}") from error
    found = re.match(r"v(\d+)\.", answer)
    return int(found.group(1)) if found else 0


def runtime_environment_of(revision: Revision | BuildSpec, home: Home, code_dir: Path, deps_dir: Path | None) -> dict[str, str]:
    """Environment of a child in every mode. The user's variables take precedence, except over those the runtime reads."""
    user = revision.env
    fixed = {
        "SLESS_ENTRYPOINT": revision.entrypoint,
        "SLESS_CODE_DIR": str(code_dir),
        "SLESS_FUNCTION_NAME": revision.name,
        "SLESS_NAMESPACE": revision.namespace,
        "SLESS_VERSION": str(revision.version),
        "SLESS_MEMORY_MB": str(revision.memory_mb),
    }
    if deps_dir is not None:
        fixed["SLESS_DEPS_DIR"] = str(deps_dir)
    if isinstance(revision, Revision):
        fixed |= {
            "SLESS_TIMEOUT_SEC": str(revision.timeout_sec),
            "SLESS_CONCURRENCY": str(revision.concurrency),
            "SLESS_EVENT_FORMAT": revision.event_format,
        }
    return {**_base_of(home), **_heap_at_limit_of(revision), **user, **fixed}


def _heap_at_limit_of(revision: Revision | BuildSpec) -> Mapping[str, str]:
    """Memory limit for the language's garbage collector. By default, V8 lets garbage grow to gigabytes and Go to twice the live heap, so
    the memory watch would kill functions that only produce garbage."""
    known = RUNTIMES.get(revision.runtime)
    match known.language if known else None:
        case "node":
            return {"NODE_OPTIONS": f"--max-old-space-size={revision.memory_mb}"}
        case "go":
            return {"GOMEMLIMIT": f"{revision.memory_mb * 9 // 10}MiB"}
    return {}


def _base_of(home: Home) -> Mapping[str, str]:
    return {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": str(home.home), "TMPDIR": str(home.tmp)}
