"""Go: an upload and the runtime become one program, kept by what it was made of.

Decisions. The program is made of a copy of the upload, in which a generated main calls the entrypoint; so any module path works, and
none, and `package main`. The runtime is a requirement that go.mod replaces by a folder, or a vendored module when the upload has a
vendor folder: no workspace, where GOFLAGS=-mod=mod is refused. -mod=mod, because an upload whose go.sum or go.mod lacks a line shall
build rather than teach. The compiler's cache is shared by all: its keys are the content of what was compiled.
"""

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sless import assets
from sless.build.go_sources import MAIN_FOLDER, Prepared, prepare
from sless.build.go_toolchain import GoBuild, Toolchain, build_command_of, environment_of, find_toolchain, tags_of, write_overlay
from sless.build.work import BuildFailed, Command, Work
from sless.domain.ports import BuildSpec
from sless.host.material import PROGRAM, Material
from sless.host.process import Child, Processes
from sless.host.rundir import Home

_LAST_LINES = 50
_NICENESS = 10
_NO_FUNCTION = re.compile(rf"{MAIN_FOLDER}/main\.go:\d+:\d+: undefined: entry\.\w+")
_PLACE = re.compile(r"^(\./)?[^\s:]+\.go:\d+(:\d+)?: ")
_NOISE = re.compile(r"^(# |go: (downloading|finding|found|added|upgraded) )|^$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is compiled: the user's code (which stays as it is) and a runtime, for a function."""

    code_dir: Path
    entrypoint: str
    runtime_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """The command that compiles; it runs in `code`, a copy of the user's, and leaves the program at `made` / PROGRAM."""

    code: Path
    made: Path
    prepared: Prepared
    argv: tuple[str, ...]


def make_compilation(source: Source, toolchain: Toolchain, folder: Path, environment: Mapping[str, str]) -> Compilation:
    """Prepares in `folder`, which must be empty. Raises BuildFailed."""
    code, made = folder / "code", folder / "made"
    made.mkdir()
    _copy(source.code_dir, code)
    prepared = prepare(code, source.entrypoint, source.runtime_dir)
    build = GoBuild(
        target=f"./{MAIN_FOLDER}", output=made / PROGRAM, vendored=prepared.vendored, tags=tags_of(environment.get("GOFLAGS", "")),
        overlay=write_overlay(toolchain, source.runtime_dir / "_hooks" / "os_hooks.go", folder),
    )  # fmt: skip
    return Compilation(code=code, made=made, prepared=prepared, argv=build_command_of(toolchain, build))


@dataclass(frozen=True, slots=True, kw_only=True)
class GoCompiler:
    """`folder` keeps Go's caches, `runtimes` is another folder of runtimes than the bundled one."""

    material: Material
    processes: Processes
    folder: Path
    runtimes: Path | None = None

    def ensure(self, work: Work, code_dir: Path, home: Home) -> str:
        """The artifact: the program's folder. Raises BuildFailed, BuildCancelled."""
        toolchain = find_toolchain()
        runtime_dir = (self.runtimes or assets.runtimes_dir()).absolute() / work.spec.runtime
        source = Source(code_dir=code_dir, entrypoint=work.spec.entrypoint, runtime_dir=runtime_dir)
        artifact = key_of(work.spec, runtime_dir, toolchain)
        folder = self.material.deps_dir(artifact)
        lock = self.material.lock_of(f"deps:{artifact}")
        work.wait_for(lock)
        try:
            if folder.is_dir():
                folder.touch()
                work.log("the same code has been compiled already")
            else:
                with self.material.staging() as staged:
                    self._compile(work, source, toolchain, Home(root=staged, home=home.home, tmp=home.tmp))
                    self.material.keep_deps(staged / "made", artifact)
        finally:
            lock.release()
        return artifact

    def _compile(self, work: Work, source: Source, toolchain: Toolchain, home: Home) -> None:
        """Leaves the program in `made`."""
        began = time.monotonic()
        environment = environment_of(self.folder, home, work.spec.namespace, work.spec.build_env)
        compilation = make_compilation(source, toolchain, home.root, environment)
        for folder, name in ((compilation.code, "."), (home.root, "<build>"), (toolchain.root, "<go>")):
            work.shorten(folder, name)
        work.log(f"go build: compiling with {toolchain.version}{', vendored modules' if compilation.prepared.vendored else ''}")
        command = Command(argv=compilation.argv, cwd=compilation.code, env=environment, on_started=_lower_priority)
        exit_code = work.run(self.processes, command)
        if exit_code:
            raise BuildFailed(failure_of(work.spec.entrypoint, work.tail(), compilation.prepared.functions, exit_code))
        work.log(f"go build: done in {time.monotonic() - began:.1f} s")


def key_of(spec: BuildSpec, runtime_dir: Path, toolchain: Toolchain) -> str:
    """Equal keys mean equal programs, whoever uploaded them; what was made with a build_env is its namespace's alone."""
    content = re.search(r"[0-9a-f]{64}", spec.code_key)
    digest = hashlib.sha256()
    for part in (
        spec.runtime, spec.entrypoint, content[0] if content else spec.code_key, spec.namespace if spec.build_env else "",
        repr(sorted(spec.build_env.items())), toolchain.version, str(toolchain.root),
    ):  # fmt: skip
        digest.update(part.encode() + b"\0")
    for source in sorted([*runtime_dir.rglob("*.go"), runtime_dir / "go.mod"]):
        digest.update(source.relative_to(runtime_dir).as_posix().encode() + b"\0" + hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()[:32]


def failure_of(entrypoint: str, lines: list[str], functions: tuple[str, ...], code: int) -> str:
    """The first line carries the error itself, with file and line, since lists show only that."""
    told = [line.removeprefix("./") for line in lines if not _NOISE.match(line)]
    if any(_NO_FUNCTION.search(line) for line in told):
        package, function = entrypoint.rpartition("/")[0] or "the top folder", entrypoint.rpartition(".")[2]
        return f"entrypoint {entrypoint}: the package in {package} has no {function}, only: {', '.join(functions) or 'nothing exported'}"
    first = next((line for line in told if _PLACE.match(line)), told[0] if told else f"exit code {code}")
    return "\n".join([f"go build failed: {first}", *told[-_LAST_LINES:]])


def _lower_priority(child: Child) -> None:
    """The compiler takes every core for as long as it runs; calls go first."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PGRP, child.pid, _NICENESS)


def _copy(code_dir: Path, copy: Path) -> None:
    """The unpacked code is shared and may be read-only; go works on a copy, to which files are added."""
    shutil.copytree(code_dir, copy, symlinks=True, ignore=shutil.ignore_patterns("node_modules", ".git"))
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)
