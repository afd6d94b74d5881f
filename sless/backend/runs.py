"""One-off runs: jobs, and calls of functions without instances."""

import logging
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sless import clock
from sless.backend.outcome import NoOutcome, ResultTooLarge, RunLimits, read_outcome
from sless.backend.records import RunRecord, status_of
from sless.backend.starter import Starter, material_key_of
from sless.domain.exits import exit_words_of, reported
from sless.domain.model import CallStatus
from sless.domain.ports import BackendUnavailable, ObservedRun, RunSpec
from sless.errors import storage_full
from sless.host.disk import is_full
from sless.host.lines import LineReader
from sless.host.memory import out_of_memory_words_of
from sless.host.process import Child, Launch
from sless.host.program import runtime_environment_of
from sless.host.rundir import remove_tree
from sless.host.sandbox import Access
from sless.ids import new_id

STOPPED = "the server stopped while this ran"
_log = logging.getLogger(__name__)

Done = Callable[[ObservedRun], None]


@dataclass(slots=True, eq=False, kw_only=True)
class _Run:
    spec: RunSpec
    done: Done
    record: RunRecord
    reader: LineReader
    home: str
    """Name of its home folder and source of its log lines. It differs from the run's id, because a retry may start while this attempt is
    being cleaned up, and the numbers of its lines start from the beginning."""
    started_at: datetime = field(default_factory=clock.now)
    child: Child | None = None
    ended: ObservedRun | None = None
    forced: tuple[CallStatus, str] | None = None
    """Why sless ended the run; takes precedence over the result of the process."""
    removed: bool = False
    interrupted: bool = False
    """Whether the server is stopping: then no outcome is kept, and the next server starts the run again."""


class LocalRuns:
    """`changed` is called after each run."""

    def __init__(self, starter: Starter, folder: Path, limits: RunLimits, changed: Callable[[], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._starter = starter
        self._folder = folder
        self._limits = limits
        self._changed = changed
        self._runs: dict[str, _Run] = {}
        self._foreign: dict[str, ObservedRun] = {}
        """Ended runs of an earlier server."""
        self._lock = threading.Condition()
        self._closing = False
        for aside in folder.glob(".gone-*"):
            remove_tree(aside)
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sless-runs")

    def start(self, spec: RunSpec, done: Done) -> None:
        """Raises BackendUnavailable when the server is stopping or a removed run with this id has not ended yet; SlessError when the disk
        is full."""
        if is_full(self._folder):
            raise storage_full("no run can start")
        record = RunRecord(path=self._folder / spec.id)
        with self._lock:
            if self._closing:
                raise BackendUnavailable("the server is stopping")
            known = self._runs.get(spec.id)
            if known is not None and known.removed:
                raise BackendUnavailable("the previous attempt is still being stopped")
            if known is not None or record.path.exists():
                return
            source = new_id()
            reader = LineReader(
                source, spec.revision.workload_id, self._starter.sink, namespace=spec.revision.namespace, invocation_id=spec.id
            )
            run = self._runs[spec.id] = _Run(spec=spec, done=done, record=record, reader=reader, home=source)
        self._pool.submit(self._guard, run, self._launch)

    def observe(self) -> dict[str, ObservedRun]:
        with self._lock:
            known = {
                run_id: run.ended or ObservedRun(id=run_id, status=CallStatus.RUNNING, started_at=run.started_at)
                for run_id, run in self._runs.items()
                if not run.removed
            }
            ours = set(self._runs)
        for path in self._folder.iterdir():
            if path.name not in ours and not path.name.startswith(".") and (found := self._observe_foreign(RunRecord(path=path))):
                known[found.id] = found
        return known

    def _observe_foreign(self, record: RunRecord) -> ObservedRun | None:
        """Observes a run of another server. Removes an interrupted one without reporting it, so that it is started again."""
        run_id = record.path.name
        if run_id not in self._foreign:
            owner = record.owner()
            lives = self._starter.run_dir.is_alive(owner) if owner else True
            found = record.observe(self._limits, owner_lives=lives)
            if lives:
                return found
            record.replay_log(self._starter.sink)
            if found is None:
                self._set_aside(record)
                return None
            self._foreign[run_id] = found
        return self._foreign[run_id]

    def remove(self, run_id: str) -> None:
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None:
                run.removed = True
                if run.ended is None:
                    self._force(run, CallStatus.CANCELLED, "cancelled")
                    return
                del self._runs[run_id]
            self._foreign.pop(run_id, None)
        self._set_aside(RunRecord(path=self._folder / run_id))

    def close(self, grace_sec: float) -> None:
        """Waits up to `grace_sec` for runs to end, then kills them."""
        with self._lock:
            self._closing = True
            self._lock.wait_for(lambda: not self._active_runs(), grace_sec)
            for run in self._active_runs():
                run.interrupted = True
                self._force(run, CallStatus.FAILED, STOPPED)
            self._lock.wait_for(lambda: not self._active_runs(), 5)
        self._pool.shutdown(wait=True)

    # --- one run --------------------------------------------------------------------------------------------------------------------

    def _guard(self, run: _Run, step: Callable[[_Run], None]) -> None:
        """Top of a pool thread. Any error ends the run with a message."""
        try:
            step(run)
        except Exception as error:
            reason = self._starter.reason_of(error)
            if "internal error" in reason:
                _log.exception("run %s failed", run.spec.id)
            self._conclude(run, self._ended(run, CallStatus.FAILED, reason))

    def _launch(self, run: _Run) -> None:
        revision = run.spec.revision
        unpacked = self._starter.material.ensure(material_key_of(revision))
        argv = self._starter.commands.command_of(revision.runtime, unpacked.program)
        run.started_at = run.record.create(run.spec, self._starter.run_dir.owner, run.home)
        home = self._starter.run_dir.make_home(run.home)
        environment = runtime_environment_of(revision, home, unpacked.code_dir, unpacked.deps_dir) | {
            "SLESS_MODE": "job",
            "SLESS_EVENT_FILE": str(run.record.event),
            "SLESS_RESULT_FILE": str(run.record.result),
            "SLESS_INVOCATION_ID": run.spec.id,
            "SLESS_REQUEST_ID": run.spec.request_id,
            "SLESS_TRIGGER": str(run.spec.trigger),
        }
        launch = Launch(
            argv=argv, cwd=unpacked.code_dir, env=environment,
            on_lines=lambda stream, lines: self._take_lines(run, stream, lines),
            on_exit=lambda code: self._on_exit(run, code), owner=revision.namespace,
            access=Access(
                reads=(*self._starter.commands.reads_of(argv), *unpacked.reads(), run.record.event), writes=(home.root, run.record.out),
                tmp=home.tmp,
            ),
        )  # fmt: skip
        child = self._starter.processes.start(launch)
        self._starter.memory.add(child.pid, revision.memory_mb, lambda used_mb: self._on_over_memory(run, used_mb))
        if revision.timeout_sec:
            self._starter.processes.call_later(revision.timeout_sec, lambda: self._on_time_out(run))
        with self._lock:
            run.child = child
            if child.reaped:
                self._starter.memory.remove(child.pid)
            if run.forced:
                child.signal_group(signal.SIGKILL)

    def _take_lines(self, run: _Run, stream: str, lines: Sequence[bytes]) -> None:
        run.reader.take(stream, lines)
        run.record.append_log(lines)

    def _on_time_out(self, run: _Run) -> None:
        with self._lock:
            if run.ended is None and run.forced is None and run.child is not None:
                run.forced = (CallStatus.TIMEOUT, f"timed out after {run.spec.revision.timeout_sec} s")
                run.child.signal_group(signal.SIGTERM)
                child = run.child
                self._starter.processes.call_later(self._limits.stop_sec, lambda: child.signal_group(signal.SIGKILL))

    def _on_over_memory(self, run: _Run, used_mb: int) -> None:
        with self._lock:
            self._force(run, CallStatus.FAILED, out_of_memory_words_of(used_mb, run.spec.revision.memory_mb))

    def _force(self, run: _Run, status: CallStatus, message: str) -> None:
        """Kills it. The caller holds the lock."""
        run.forced = run.forced or (status, message)
        if run.child is not None:
            run.child.signal_group(signal.SIGKILL)

    def _on_exit(self, run: _Run, code: int) -> None:
        """Runs in the children's thread, so a pool thread reads the result."""
        self._pool.submit(self._guard, run, lambda run: self._conclude(run, self._outcome_of(run, code)))

    def _outcome_of(self, run: _Run, code: int) -> ObservedRun:
        if run.forced:
            status, message = run.forced
            return self._ended(run, status, message, exit_code=code)
        try:
            outcome = read_outcome(run.record.result, self._limits.of(run.spec.revision.kind))
        except ResultTooLarge as error:
            return ObservedRun(
                id=run.spec.id, status=CallStatus.FAILED, message=str(error), exit_code=code,
                started_at=run.started_at, ended_at=clock.now(), non_retryable=True,
            )  # fmt: skip
        except NoOutcome:
            return self._ended(run, CallStatus.FAILED, reported(exit_words_of(code), run.reader.crash), exit_code=code)
        tail = run.reader.tail()
        lines = [] if tail == [outcome.error] else tail  # a single line that is the error itself is not repeated
        message = "" if outcome.ok else "\n".join([outcome.error or "", *lines])
        return ObservedRun(
            id=run.spec.id, status=status_of(outcome.ok), outcome=outcome, message=message, exit_code=code,
            started_at=run.started_at, ended_at=clock.now(),
        )  # fmt: skip

    def _ended(self, run: _Run, status: CallStatus, reason: str, exit_code: int | None = None) -> ObservedRun:
        message = "\n".join([reason, *run.reader.tail()])
        return ObservedRun(
            id=run.spec.id, status=status, message=message, exit_code=exit_code, started_at=run.started_at, ended_at=clock.now()
        )

    def _conclude(self, run: _Run, end: ObservedRun) -> None:
        if run.child is not None:
            self._starter.memory.remove(run.child.pid)
        if run.removed or run.interrupted:
            self._set_aside(run.record)
        else:
            self._write_end(run, end)
        with self._lock:
            run.ended = end
            if run.removed:
                self._runs.pop(run.spec.id, None)
            self._lock.notify_all()
        try:
            run.done(end)
        except Exception:
            _log.exception("the callback of run %s failed", run.spec.id)
        self._changed()
        remove_tree(self._starter.run_dir.home_root(run.home))

    def _write_end(self, run: _Run, end: ObservedRun) -> None:
        try:
            if run.record.path.is_dir():
                run.record.write_end(end)
        except OSError as error:  # the caller is still notified; a restarted server would start the run again
            _log.warning("cannot record the end of run %s: %s", run.spec.id, error)

    def _set_aside(self, record: RunRecord) -> None:
        aside = record.set_aside()
        if aside is not None:
            self._pool.submit(remove_tree, aside)

    def _active_runs(self) -> list[_Run]:
        return [run for run in self._runs.values() if run.ended is None]
