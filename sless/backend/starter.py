"""Starts one instance: code on disk, home, socket, child, memory watch."""

from collections.abc import Callable

from sless.backend.instances import Instance
from sless.domain.ports import Revision
from sless.errors import FULL_ERRNOS, SlessError, storage_full
from sless.host.lines import LineReader, Sink
from sless.host.material import Material, MaterialKey, MaterialLost
from sless.host.memory import MemoryWatch
from sless.host.process import Launch, Processes
from sless.host.program import Commands, RuntimeMissing, runtime_environment_of
from sless.host.rundir import RunDir, remove_tree
from sless.host.sandbox import Access
from sless.ids import new_id


class Starter:
    """Starts instances, and holds what runs need, too. `sink` receives log lines."""

    def __init__(self, *, material: Material, run_dir: RunDir, commands: Commands, sink: Sink, processes: Processes) -> None:
        self.material = material
        self.run_dir = run_dir
        self.commands = commands
        self.sink = sink
        self.processes = processes
        self.memory = MemoryWatch()

    def make_instance(self, revision: Revision) -> Instance:
        instance_id = new_id()
        return Instance(
            id=instance_id,
            revision=revision,
            socket=self.run_dir.socket_path(instance_id),
            reader=LineReader(instance_id, revision.workload_id, self.sink, namespace=revision.namespace),
        )

    def launch(self, instance: Instance, on_exit: Callable[[Instance, int], None], on_over: Callable[[Instance, int], None]) -> None:
        """Starts the instance. Raises errors that `reason_of` explains."""
        revision = instance.revision
        unpacked = self.material.ensure(material_key_of(revision))
        argv = self.commands.command_of(revision.runtime, unpacked.program)
        home = self.run_dir.make_home(instance.id)
        environment = runtime_environment_of(revision, home, unpacked.code_dir, unpacked.deps_dir)
        instance.socket.parent.mkdir(mode=0o700, exist_ok=True)
        child = self.processes.start(
            Launch(
                argv=argv,
                cwd=unpacked.code_dir,
                env={**environment, "SLESS_MODE": "server", "SLESS_SOCKET": str(instance.socket)},
                on_lines=instance.reader.take,
                on_exit=lambda code: on_exit(instance, code),
                owner=revision.namespace,
                access=Access(
                    reads=(*self.commands.reads_of(argv), *unpacked.reads()), writes=(home.root, instance.socket.parent), tmp=home.tmp
                ),
            )
        )
        self.memory.add(child.pid, revision.memory_mb, lambda used_mb: on_over(instance, used_mb))
        instance.child = child
        if child.reaped:  # it has ended already
            self.memory.remove(child.pid)

    def clean(self, instance: Instance) -> None:
        """Removes what `launch` created."""
        if instance.child is not None:
            self.memory.remove(instance.child.pid)
        remove_tree(instance.socket.parent)
        remove_tree(self.run_dir.home_root(instance.id))

    def reason_of(self, error: Exception) -> str:
        """Why a start failed, for users; names internal errors only by type."""
        match error:
            case RuntimeMissing() | MaterialLost():
                return str(error)
            case SlessError():
                return error.message
            case OSError() if error.errno in FULL_ERRNOS:
                return storage_full("the function could not be started").message
            case OSError():
                return f"function could not be started: {error.strerror or error}"
        return f"function could not be started: internal error ({type(error).__name__})"

    def message_of(self, instance: Instance, reason: str) -> str:
        """The reason, followed by the last log lines if the instance never became ready, since they explain the error in the code."""
        tail = instance.reader.tail() if instance.ready_since is None else []
        return "\n".join([reason, *tail])

    def close(self) -> None:
        self.processes.close()
        self.memory.close()


def material_key_of(revision: Revision) -> MaterialKey:
    return MaterialKey(code_key=revision.code_key, artifact=revision.artifact, runtime=revision.runtime)
