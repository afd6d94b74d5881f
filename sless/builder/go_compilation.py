"""One `go build` of an upload: completes a copy of the code to a program, and has the command that compiles it."""

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from sless.builder.go_sources import MAIN_FOLDER, PreparedSources, prepare
from sless.builder.go_toolchain import GoBuild, Toolchain, build_command_of, tags_of, write_overlay
from sless.host.material import PROGRAM
from sless.host.process import Child

_NICENESS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GoSource:
    """The input of a compilation: the user's code (left unchanged), the entrypoint and the runtime."""

    code_dir: Path
    entrypoint: str
    runtime_dir: Path

    @property
    def hooks(self) -> Path:
        """The file added to package os."""
        return self.runtime_dir / "_hooks" / "os_hooks.go"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """A command to run in `code`, a copy of the user's code. It writes the program to `made` / PROGRAM."""

    source: GoSource
    toolchain: Toolchain
    environment: dict[str, str]
    code: Path
    made: Path
    prepared: PreparedSources
    argv: tuple[str, ...]


def make_compilation(source: GoSource, toolchain: Toolchain, folder: Path, environment: dict[str, str]) -> Compilation:
    """Prepares in `folder`, which must be empty. Raises BuildFailed."""
    code, made = folder / "code", folder / "made"
    made.mkdir()
    _copy(source.code_dir, code)
    prepared = prepare(code, source.entrypoint, source.runtime_dir)
    build = GoBuild(
        target=f"./{MAIN_FOLDER}", output=made / PROGRAM, vendored=prepared.vendored, tags=tags_of(environment.get("GOFLAGS", "")),
        overlay=write_overlay(toolchain, source.hooks, folder),
    )  # fmt: skip
    return Compilation(
        source=source, toolchain=toolchain, environment=environment, code=code, made=made, prepared=prepared,
        argv=build_command_of(toolchain, build),
    )  # fmt: skip


def lower_priority(child: Child) -> None:
    """Lowers the priority of the compiler, which uses every core, so that calls take precedence."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PGRP, child.pid, _NICENESS)


def _copy(code_dir: Path, copy: Path) -> None:
    """Copies the unpacked code, which is shared and may be read-only, because the build adds files."""
    shutil.copytree(code_dir, copy, symlinks=True, ignore=shutil.ignore_patterns("node_modules", ".git"))
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
