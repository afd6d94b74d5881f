"""LocalBuilder: builds versions in child processes on this machine."""

import logging
import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path

from sless.builder.check import ImportCheck
from sless.builder.dependencies import (
    LOCKS,
    PACKAGE,
    REQUIREMENTS,
    Installation,
    Tool,
    WrongManifest,
    decoded_of,
    find_installation,
    unread_notes_of,
)
from sless.builder.failures import BuildFailed, install_message_of
from sless.builder.go import GoCompiler
from sless.builder.go_again import GoAgain
from sless.builder.installers import command_of, installer_environment_of, own_caches_of, reads_of
from sless.builder.work import BuildCancelled, Command, Work
from sless.builder.works import Works
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.model import Version
from sless.domain.ports import BuildSpec, BuildStatus
from sless.domain.runtimes import RUNTIMES
from sless.errors import SlessError
from sless.host.material import Material, MaterialKey, MaterialLost
from sless.host.memory import MemoryWatch
from sless.host.process import Processes
from sless.host.program import Commands, RuntimeMissing
from sless.host.rundir import Home, RunDir, remove_tree
from sless.host.sandbox import Access, sandbox_of
from sless.host.unprivileged import unprivileged_of
from sless.ids import new_id

_log = logging.getLogger(__name__)


def make_local_builder(
    settings: Settings, material: Material, *, runtimes: Path | None = None, again: bool = False, durations: Durations | None = None
) -> "LocalBuilder":
    """`runtimes` overrides the bundled folder of runtimes. `again`: optimise repeated builds of one function, whose code is the user's own
    and runs as that user."""
    run_dir = RunDir(settings.run_dir, settings.data_dir)
    run_dir.clean_leftovers()
    sandbox = sandbox_of(settings.local_sandbox, settings.local_sandbox_read)
    unprivileged = None if sandbox or again else unprivileged_of(settings.data_dir, run_dir.base)
    check = ImportCheck(
        processes=Processes(run_dir, sandbox, unprivileged), memory=MemoryWatch(), commands=Commands(runtimes),
        limit_sec=(durations or Durations()).import_sec,
    )  # fmt: skip
    go = GoCompiler(
        material=material, processes=check.processes, folder=settings.data_dir / "go", runtimes=runtimes,
        again=GoAgain(check.processes, settings.data_dir / "go-again") if again else None,
    )  # fmt: skip
    return LocalBuilder(material, run_dir, check, go, settings.build_timeout_sec)


def is_compiled(runtime: str) -> bool:
    return RUNTIMES[runtime].language == "go"


def find_artifact(material: Material, spec: BuildSpec) -> str | None:
    """The artifact of a version that can start without a build: nothing to compile, all dependencies installed. Else None. Raises
    WrongManifest and the errors of `Material.ensure`."""
    if is_compiled(spec.runtime):
        return None
    code_dir = material.ensure(MaterialKey(code_key=spec.code_key, artifact="", runtime=spec.runtime)).code_dir
    installation = find_installation(code_dir, spec)
    if installation is None:
        return ""
    return installation.key if material.deps_dir(installation.key).is_dir() else None


class LocalBuilder:
    """See ports.Builder. One thread per build; the loop of builds limits their number."""

    def __init__(self, material: Material, run_dir: RunDir, check: ImportCheck, go: GoCompiler, timeout_sec: int) -> None:
        self._material = material
        self._run_dir = run_dir
        self._check = check
        self._go = go
        self._works = Works(self._build_artifact, timeout_sec)

    def start(self, build: BuildSpec, changed: Callable[[], None]) -> None:
        self._works.start(build, changed)

    def poll(self, build_id: str) -> BuildStatus | None:
        return self._works.poll(build_id)

    def cancel(self, build_id: str) -> None:
        self._works.cancel(build_id)

    def discard(self, artifact: str) -> None:
        """Does nothing, because `Material` collects the folders."""

    def collect(self, list_kept: Callable[[], Collection[Version]], young_sec: float) -> None:
        """See `discard`."""

    def close(self) -> None:
        self._works.cancel_all()
        if self._go.again is not None:
            self._go.again.close()
        self._works.join()
        self._check.processes.close()
        self._check.memory.close()
        self._run_dir.close()

    def _build_artifact(self, work: Work) -> None:
        """Top of a build's thread. Any error becomes the message of the version."""
        try:
            work.end(ready=True, artifact=self._make(work))
        except BuildCancelled:
            return
        except (BuildFailed, RuntimeMissing, MaterialLost, WrongManifest) as error:
            work.end(ready=False, message=str(error))
        except SlessError as error:
            work.end(ready=False, message=error.message)
        except OSError as error:
            work.end(ready=False, message=f"build failed: {error.strerror or error}")
        except Exception as error:
            _log.exception("build %s failed", work.spec.id)
            work.end(ready=False, message=f"build failed: internal error ({type(error).__name__})")
        else:
            if self._go.again is not None:
                self._go.again.learn(work.spec)

    def _make(self, work: Work) -> str:
        """Returns the artifact."""
        spec = work.spec
        compiled = is_compiled(spec.runtime)
        if not compiled:
            self._check.commands.command_of(spec.runtime)  # a missing runtime fails before anything is installed
        home = self._run_dir.make_home(new_id())
        try:
            code_dir = self._material.ensure(MaterialKey(code_key=spec.code_key, artifact="", runtime=spec.runtime)).code_dir
            work.shorten(code_dir, ".")
            artifact = self._go.ensure(work, code_dir, home) if compiled else self._ensure_dependencies(work, code_dir, home)
            unpacked = self._material.ensure(MaterialKey(code_key=spec.code_key, artifact=artifact, runtime=spec.runtime))
            work.shorten(unpacked.code_dir, ".")
            work.begin_import()
            self._check.run(work, unpacked, home)
        finally:
            remove_tree(home.root)
        work.log(f"imported {spec.entrypoint}: version {spec.version} is ready")
        return artifact

    def _ensure_dependencies(self, work: Work, code_dir: Path, home: Home) -> str:
        installation = find_installation(code_dir, work.spec)
        for note in unread_notes_of(code_dir, work.spec.runtime):
            work.log(note)
        if installation is None:
            return ""
        self._ensure_installed(work, installation, code_dir, home)
        return installation.key

    def _ensure_installed(self, work: Work, installation: Installation, code_dir: Path, home: Home) -> None:
        """Makes builds with equal dependencies take turns: the second finds them installed, or installs them if the first failed."""
        folder = self._material.deps_dir(installation.key)
        lock = self._material.lock_of(f"deps:{installation.key}")
        work.wait_for(lock)
        try:
            if folder.is_dir():
                folder.touch()
                work.log(f"the dependencies in {installation.file} are already installed")
                return
            with self._material.staging() as staged:
                self._install(work, installation, code_dir, Home(root=staged, home=home.home, tmp=staged / "tmp"))
                self._material.keep_deps(staged / "made", installation.key)
        finally:
            lock.release()

    def _install(self, work: Work, installation: Installation, code_dir: Path, home: Home) -> None:
        """Writes the content of the dependency folder to `made`."""
        began = time.monotonic()
        made = home.root / "made"
        made.mkdir()
        home.tmp.mkdir()
        cwd = code_dir / installation.folder
        if installation.tool is not Tool.PIP or not installation.needs_code:
            cwd = home.root / "code"
            _copy_for_installer(code_dir / installation.folder, cwd, whole=installation.needs_code)
        work.shorten(cwd, ".")
        work.shorten(home.root, "<build>")
        work.log(f"{installation.tool}: installing {installation.file}")
        environment = installer_environment_of(home, work.spec.build_env)
        if self._check.processes.isolated:
            environment |= own_caches_of(home)
        command = Command(
            argv=command_of(installation.tool, made, home), cwd=cwd, env=environment,
            access=Access(reads=(code_dir, *reads_of(installation.tool, environment)), writes=(home.root, home.home), tmp=home.tmp),
        )  # fmt: skip
        code = work.run(self._check.processes, command)
        if code:
            tool, text = installation.tool.split()[0], decoded_of((code_dir / installation.file).read_bytes())
            raise BuildFailed(install_message_of(tool, installation.file, work.tail(), code, text=text))
        if installation.tool is not Tool.PIP:
            # This includes the copy of the upload, if there is one, because node_modules links into it.
            made.rmdir()
            cwd.rename(made)
        work.log(f"{installation.tool}: done in {time.monotonic() - began:.1f} s")


def _copy_for_installer(code_dir: Path, folder: Path, *, whole: bool) -> None:
    """Copies the code for npm, which writes next to package.json, because the unpacked code is shared. Leaves out files that are not part
    of the result's key."""
    if whole:
        shutil.copytree(code_dir, folder, symlinks=True)
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o200)
        return
    folder.mkdir()
    for name in (REQUIREMENTS, PACKAGE, *LOCKS, ".npmrc"):
        if (code_dir / name).is_file():
            shutil.copyfile(code_dir / name, folder / name)
