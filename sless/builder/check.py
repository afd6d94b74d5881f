"""Trial import of the entrypoint at the end of a local build, so that a version that cannot be imported never becomes ready."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

from sless.builder.failures import BuildFailed, import_message_of
from sless.builder.work import Command, Work
from sless.domain.exits import exit_words_of
from sless.domain.ports import BuildSpec
from sless.host.material import Unpacked
from sless.host.memory import MemoryWatch, out_of_memory_words_of
from sless.host.process import Child, Processes
from sless.host.program import Commands, runtime_environment_of
from sless.host.rundir import Home
from sless.host.sandbox import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCheck:
    processes: Processes
    memory: MemoryWatch
    commands: Commands
    limit_sec: float

    def run(self, work: Work, unpacked: Unpacked, home: Home) -> None:
        """Raises BuildFailed, RuntimeMissing."""
        spec = work.spec
        used: list[int] = []
        groups: list[int] = []

        def watch(child: Child) -> None:
            def over(used_mb: int) -> None:
                used.append(used_mb)
                child.signal_group(signal.SIGKILL)

            groups.append(child.pid)
            self.memory.add(child.pid, spec.memory_mb, over)

        try:
            code = work.run(self.processes, self._command_of(spec, unpacked, home, watch))
        finally:
            for group in groups:
                self.memory.remove(group)
        if used:
            raise BuildFailed(f"importing {spec.entrypoint}: {out_of_memory_words_of(used[0], spec.memory_mb)}")
        if code:
            raise BuildFailed(import_message_of(spec.entrypoint, work.tail() or [exit_words_of(code)]))

    def _command_of(self, spec: BuildSpec, unpacked: Unpacked, home: Home, watch: Callable[[Child], None]) -> Command:
        environment = runtime_environment_of(spec, home, unpacked.code_dir, unpacked.deps_dir)
        argv = self.commands.command_of(spec.runtime, unpacked.program)
        # Only the trial import may write to the code's folder: Python leaves compiled modules there for each later start.
        reads = (*self.commands.reads_of(argv), *unpacked.reads())
        access = Access(reads=reads, writes=(home.root,), compiles=(unpacked.code_dir,), tmp=home.tmp)
        return Command(
            argv=argv,
            cwd=unpacked.code_dir,
            env={**environment, "SLESS_MODE": "check"},
            limit_sec=self.limit_sec,
            limit_message=f"importing {spec.entrypoint} took more than {self.limit_sec:.0f} s",
            on_started=watch,
            access=access,
        )
