"""Rebuilds a Go function that was compiled a moment ago, without the go command (for `sless dev`).

The go command takes longer to find out what is unchanged than the compiler and the linker take for the changes. So after a build, this
module gets the commands that a build would run (`go build -n`) and replays them at the next save, unless something changed that only the go
command understands. Figures (2 busy cores, seconds from save to ready, median of 5; replay, then `go build` with a warm cache): one small
file 2.0 and 4.7; a module with net/http and an inner package 0.75 and 1.26. The replay stays as long as it is faster by more than a factor
of 1.5.

Decision: slow rather than stale. A recipe is used only if, from the same sources, it made the same program as `go build` except for the
build id. It is replayed only while the same files exist and the ones that differ are Go files it compiles, with unchanged text up to the
package clause (build constraints). The recipe lists what each package may import, so a new import, embedded file or directive makes the
compiler fail. After any failure the go command runs as if nothing had been tried. Consequence: a change outside the folder
(`go env -w`) takes effect at the next build by the go command.
"""

import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sless.builder.failures import BuildFailed
from sless.builder.go_compilation import Compilation, make_compilation
from sless.builder.go_recipe import Recipe, ReplayFolders, find_recipe, steps_of
from sless.builder.go_sources import EARLY_FILE, head_of
from sless.builder.work import BuildCancelled, Command, Work
from sless.domain.ports import BuildSpec
from sless.host.material import PROGRAM
from sless.host.process import Processes
from sless.host.rundir import remove_tree
from sless.ids import new_id

_log = logging.getLogger(__name__)
_LEARN_SEC = 60
_POLL_SEC = 0.1
_ID = re.compile(rb"[\w-]{20}/[\w-]{20}/[\w-]{20}/[\w-]{20}")
_OF_ONE_BUILD = frozenset({"HOME", "TMPDIR"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A recipe and the sources for which it is valid. `contents`: path → digest; `heads`: compiled files up to the package clause."""

    recipe: Recipe
    setting: object
    contents: dict[str, str]
    heads: dict[str, str]

    def fits(self, compilation: Compilation, contents: dict[str, str]) -> bool:
        if self.setting != _setting_of(compilation) or self.contents.keys() != contents.keys():
            return False
        changed = [path for path, digest in contents.items() if self.contents[path] != digest]
        return all(path in self.heads and self.heads[path] == head_of(compilation.code / path) for path in changed)


class GoAgain:
    """`folder` holds compiled packages and is used by this object only; there is one recipe at a time. Thread-safe."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._processes = processes
        self._folder = folder
        self._archives = folder / "archives"
        self._archives.mkdir(parents=True)
        self._lock = threading.Lock()
        self._known: Known | None = None
        self._noted: tuple[Compilation, Path] | None = None
        self._learning: Work | None = None

    def compile(self, work: Work, compilation: Compilation) -> bool:
        """Whether it made the program; if not, it leaves no files. Raises BuildCancelled, BuildFailed (time limit exceeded)."""
        with self._held(work):
            began, known = time.monotonic(), self._known
            if known is None:
                return False
            try:
                contents = contents_of(compilation)
                if not known.fits(compilation, contents) or not self._follow(work, known, contents, compilation):
                    return False
            except OSError:
                return False
            work.log(f"go: compiled what changed in {time.monotonic() - began:.2f} s")
            return True

    def note(self, compilation: Compilation, program: Path) -> None:
        """Remembers a build of `program` by the go command for `learn`."""
        self._noted = (compilation, program)

    def learn(self, spec: BuildSpec) -> None:
        """Finds the recipe of the noted build. Takes as long as a build, so call it when no build is waiting."""
        noted, self._noted = self._noted, None
        if noted is None:
            return
        work = self._learning = Work(spec, lambda: None, _LEARN_SEC)
        try:
            with self._held(work), self._place() as folder:
                self._known = None
                self._known = self._learnt(work, *noted, folder)
        except (BuildFailed, BuildCancelled, OSError, ValueError) as error:
            _log.info("Go is compiled by the go command alone: %s", error)

    def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()

    @contextmanager
    def _held(self, work: Work) -> Iterator[None]:
        """Makes a save during `learn` wait until it ends, which takes no longer than a concurrent build would."""
        while not self._lock.acquire(timeout=_POLL_SEC):
            work.check_time()
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def _place(self) -> Iterator[Path]:
        folder = self._folder / new_id(12)
        (folder / "tmp").mkdir(parents=True)
        try:
            yield folder
        finally:
            remove_tree(folder)

    def _learnt(self, work: Work, built: Compilation, program: Path, folder: Path) -> Known | None:
        environment = {**built.environment, "TMPDIR": str(folder / "tmp")}
        compilation = make_compilation(built.source, built.toolchain, folder, environment)
        contents = contents_of(compilation)
        recipe = find_recipe(self._printed(work, compilation), compilation.code)
        if recipe is None:
            return None
        heads = {path: head_of(compilation.code / path) for package in recipe.packages for path in package.files}
        known = Known(recipe=recipe, setting=_setting_of(compilation), contents=contents, heads=heads)
        if not heads.keys() <= contents.keys() or not self._follow(work, known, contents, compilation):
            return None
        return known if _without_id(compilation.made / PROGRAM) == _without_id(program) else None

    def _printed(self, work: Work, compilation: Compilation) -> str:
        """The commands that go would run if each package of the upload had changed. Fails (-mod=readonly) if go.mod is incomplete; such
        uploads have no recipe."""
        printed: list[bytes] = []
        argv = [part.replace("-mod=mod", "-mod=readonly") for part in compilation.argv]
        touched = {path: path.read_bytes() for path in compilation.code.rglob(EARLY_FILE)}
        for path, content in touched.items():
            path.write_bytes(content + f"// {new_id()}\n".encode())
        code = work.run(self._processes, _command([*argv[:2], "-n", *argv[2:]], compilation, lambda _, lines: printed.extend(lines)))
        for path, content in touched.items():
            path.write_bytes(content)
        return b"\n".join([*printed, b""]).decode() if code == 0 else ""

    def _follow(self, work: Work, known: Known, contents: dict[str, str], compilation: Compilation) -> bool:
        """Makes the program; removes it after a failure."""
        program, folder = compilation.made / PROGRAM, compilation.code.parent / "again"
        steps = steps_of(
            known.recipe, contents, ReplayFolders(code=compilation.code, work=folder, archives=self._archives, program=program)
        )
        script = folder / "steps.sh"
        for path, content in {**steps.files, script: steps.script}.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        if work.run(self._processes, _command(["/bin/sh", str(script)], compilation, lambda _, lines: None)):
            program.unlink(missing_ok=True)
            return False
        for made, path in steps.made.items():
            made.rename(path)
        for path in set(self._archives.iterdir()) - set(steps.archives):
            path.unlink()
        return True


def contents_of(compilation: Compilation) -> dict[str, str]:
    """Path → digest of all files in the code's folder, before a build writes to it."""
    contents = {}
    for path in compilation.code.rglob("*"):
        if path.is_file():
            contents[path.relative_to(compilation.code).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.is_symlink():
            contents[path.relative_to(compilation.code).as_posix()] = os.readlink(path)
    return contents


def _command(argv: Sequence[str], compilation: Compilation, on_lines: Callable[[str, Sequence[bytes]], None]) -> Command:
    return Command(argv=tuple(argv), cwd=compilation.code, env=compilation.environment, on_lines=on_lines)


def _setting_of(compilation: Compilation) -> object:
    environment = {name: value for name, value in compilation.environment.items() if name not in _OF_ONE_BUILD}
    return compilation.toolchain, compilation.source.hooks.read_bytes(), compilation.prepared.vendored, environment


def _without_id(program: Path) -> bytes:
    """Removes the build id, which is in a note at the beginning of the program."""
    return _ID.sub(b"", program.read_bytes(), count=1)
