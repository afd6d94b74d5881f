"""Compiles an upload and the Go runtime into one program, cached by the content of both.

Decisions. A copy of the upload gets a generated main that calls the entrypoint, so it may have any module path, none, or be `package main`.
The runtime is a requirement that go.mod replaces with a folder, or a vendored module when the upload has a vendor folder. There is no
workspace, because a workspace refuses GOFLAGS=-mod=mod. We use -mod=mod so that an upload builds although a line is missing in its go.sum
or go.mod. All tenants share the compiler's cache, whose keys are hashes of the compiled content.
"""

import hashlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

from sless import assets
from sless.builder.failures import BuildFailed
from sless.builder.go_again import GoAgain
from sless.builder.go_compilation import Compilation, GoSource, lower_priority, make_compilation
from sless.builder.go_constraints import left_out_notes_of
from sless.builder.go_sources import MAIN_FOLDER
from sless.builder.go_toolchain import Toolchain, find_toolchain, go_environment_of, tags_of
from sless.builder.work import Command, Work
from sless.domain.ports import BuildSpec
from sless.host.material import PROGRAM, Material
from sless.host.process import Processes
from sless.host.rundir import Home
from sless.host.sandbox import Access

_LAST_LINES = 50
_NO_FUNCTION = re.compile(rf"{MAIN_FOLDER}/main\.go:\d+:\d+: undefined: entry\.\w+")
_PLACE = re.compile(r"^(\./)?[^\s:]+\.go:\d+(:\d+)?: ")
_NOISE = re.compile(r"^(# |go: (downloading|finding|found|added|upgraded) )|^$")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoCompiler:
    """`folder` holds Go's caches; `runtimes` overrides the bundled runtimes; `again` makes repeated builds of one function fast."""

    material: Material
    processes: Processes
    folder: Path
    runtimes: Path | None = None
    again: GoAgain | None = None

    def ensure(self, work: Work, code_dir: Path, home: Home) -> str:
        """Returns the artifact: the name of the program's folder. Raises BuildFailed, BuildCancelled."""
        toolchain = find_toolchain()
        runtime_dir = (self.runtimes or assets.runtimes_dir()).absolute() / work.spec.runtime
        source = GoSource(code_dir=code_dir, entrypoint=work.spec.entrypoint, runtime_dir=runtime_dir)
        for note in left_out_notes_of(code_dir, tags_of(work.spec.build_env.get("GOFLAGS", ""))):
            work.log(note)
        artifact = go_artifact_of(work.spec, runtime_dir, toolchain)
        folder = self.material.deps_dir(artifact)
        lock = self.material.lock_of(f"deps:{artifact}")
        work.wait_for(lock)
        try:
            if folder.is_dir():
                folder.touch()
                work.log("the same code is already compiled")
            else:
                with self.material.staging() as staged:
                    compilation = self._compilation(work, source, toolchain, Home(root=staged, home=home.home, tmp=home.tmp))
                    again = self.again is not None and self.again.compile(work, compilation)
                    if not again:
                        self._compile(work, compilation)
                    self.material.keep_deps(compilation.made, artifact)
                if self.again is not None and not again:
                    self.again.note(compilation, folder / PROGRAM)
        finally:
            lock.release()
        return artifact

    def _compilation(self, work: Work, source: GoSource, toolchain: Toolchain, home: Home) -> Compilation:
        environment = go_environment_of(self.folder, home, work.spec.namespace, work.spec.build_env)
        compilation = make_compilation(source, toolchain, home.root, environment)
        for folder, name in ((compilation.code, "."), (home.root, "<build>"), (toolchain.root, "<go>")):
            work.shorten(folder, name)
        return compilation

    def _access_of(self, compilation: Compilation) -> Access:
        """Access of the compiler in a sandbox, even if a user's build_env makes it start other programs."""
        environment = compilation.environment
        caches = [Path(environment[name]) for name in ("GOCACHE", "GOMODCACHE", "GOPATH")]
        for folder in caches:
            folder.mkdir(parents=True, exist_ok=True)
        staged = compilation.code.parent
        return Access(
            reads=(compilation.toolchain.root, compilation.source.runtime_dir), writes=(staged, Path(environment["TMPDIR"]), *caches),
            tmp=Path(environment["TMPDIR"]),
        )  # fmt: skip

    def _compile(self, work: Work, compilation: Compilation) -> None:
        """Writes the program to `compilation.made`."""
        began = time.monotonic()
        vendored = ", vendored modules" if compilation.prepared.vendored else ""
        work.log(f"go build: compiling with {compilation.toolchain.version}{vendored}")
        if not any(Path(compilation.environment["GOCACHE"]).glob("??")):
            work.log("go build: the first build also compiles Go's standard library, which takes about half a minute")
        command = Command(
            argv=compilation.argv, cwd=compilation.code, env=compilation.environment, on_started=lower_priority,
            access=self._access_of(compilation),
        )  # fmt: skip
        exit_code = work.run(self.processes, command)
        if exit_code:
            raise BuildFailed(failure_of(work.spec.entrypoint, work.tail(), compilation.prepared.functions, exit_code))
        work.log(f"go build: done in {time.monotonic() - began:.1f} s")


def go_artifact_of(spec: BuildSpec, runtime_dir: Path, toolchain: Toolchain) -> str:
    """Equal keys mean equal programs, even of different tenants. With a build_env, the key is private to the namespace."""
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
    """Puts the error with file and line into the first line, the only one that lists show."""
    reported = [line.removeprefix("./") for line in lines if not _NOISE.match(line)]
    if any(_NO_FUNCTION.search(line) for line in reported):
        package, function = entrypoint.rpartition("/")[0] or "the top folder", entrypoint.rpartition(".")[2]
        return f"entrypoint {entrypoint}: the package in {package} has no {function}, only: {', '.join(functions) or 'nothing exported'}"
    first = next((line for line in reported if _PLACE.match(line)), reported[0] if reported else f"exit code {code}")
    return "\n".join([f"go build failed: {first}", *reported[-_LAST_LINES:]])
