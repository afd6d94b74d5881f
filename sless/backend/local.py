"""LocalBackend: runs user code in child processes of this server."""

import time
from collections.abc import Callable, Collection

from sless.backend.outcome import RunLimits
from sless.backend.runs import LocalRuns
from sless.backend.starter import Starter
from sless.backend.supervisor import Supervisor
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.ports import Deployment, ObservedDeployment, ObservedRun, RunSpec
from sless.host.lines import Sink
from sless.host.material import Material
from sless.host.process import Processes
from sless.host.program import Commands
from sless.host.rundir import RunDir
from sless.host.sandbox import sandbox_of, warn_without_sandbox
from sless.host.unprivileged import unprivileged_of


def make_local_backend(
    settings: Settings, material: Material, on_lines: Sink, changed: Callable[[], None], *, durations: Durations | None = None,
    own_code: bool = False,
) -> "LocalBackend":  # fmt: skip
    """`own_code`: the code is the user's own, so it keeps the user. `on_lines` receives log lines in the one thread that serves all
    children, so it must return quickly. `changed` is called whenever `observe` or `observe_runs` would report something new."""
    durations = durations or Durations()
    run_dir = RunDir(settings.run_dir, settings.data_dir)
    run_dir.clean_leftovers()
    warn_without_sandbox(settings.local_sandbox)
    sandbox = sandbox_of(settings.local_sandbox, settings.local_sandbox_read)
    unprivileged = None if sandbox or own_code else unprivileged_of(settings.data_dir, run_dir.base)
    starter = Starter(
        material=material, run_dir=run_dir, commands=Commands(), sink=on_lines, processes=Processes(run_dir, sandbox, unprivileged)
    )
    runs = LocalRuns(
        starter, settings.data_dir / "runs", RunLimits(job=settings.max_result_bytes, stop_sec=durations.run_stop_sec), changed
    )
    return LocalBackend(starter, Supervisor(starter, changed, durations), runs, close_sec=durations.close_sec)


class LocalBackend:
    """See ports.Backend."""

    def __init__(self, starter: Starter, supervisor: Supervisor, runs: LocalRuns, *, close_sec: float) -> None:
        self._starter = starter
        self._supervisor = supervisor
        self._runs = runs
        self._close_sec = close_sec
        self._closed = False

    def observe(self) -> dict[str, ObservedDeployment]:
        return self._supervisor.observe()

    def apply(self, deployment: Deployment) -> None:
        self._supervisor.apply(deployment)

    def remove(self, workload_id: str) -> None:
        self._supervisor.remove(workload_id)

    def keep_namespaces(self, in_use: Collection[str]) -> None:
        """Does nothing, because no local resource belongs to a namespace as such."""

    def start_run(self, run: RunSpec, done: Callable[[ObservedRun], None]) -> None:
        self._runs.start(run, done)

    def observe_runs(self) -> dict[str, ObservedRun]:
        return self._runs.observe()

    def remove_run(self, run_id: str) -> None:
        self._runs.remove(run_id)

    def why_gone(self, endpoint_id: str) -> str | None:
        return self._supervisor.why_gone(endpoint_id)

    def report_unresponsive(self, endpoint_id: str) -> None:
        self._supervisor.report_unresponsive(endpoint_id)

    def close(self, grace_sec: float | None = None) -> None:
        """Gives calls and runs `grace_sec` to end."""
        grace_sec = self._close_sec if grace_sec is None else grace_sec
        if self._closed:
            return
        self._closed = True
        deadline = time.monotonic() + grace_sec
        self._supervisor.close(grace_sec)
        self._runs.close(max(0.0, deadline - time.monotonic()))
        self._starter.close()
        self._starter.run_dir.close()
