"""Reads the log of a run's pod: its lines, and the outcome, which is the marked last line (runtimes/README.md, "Job mode")."""

import logging
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from sless import clock
from sless.backend.kubernetes.run_manifests import end_of_job
from sless.backend.kubernetes.run_observation import RunState, ended_state_of
from sless.backend.kubernetes.view import label_of
from sless.backend.outcome import NoOutcome, ResultTooLarge, RunLimits, read_outcome
from sless.backend.records import status_of
from sless.domain.model import CallStatus, Kind
from sless.domain.output_rates import OutputRates
from sless.domain.ports import ObservedRun, Outcome
from sless.host.lines import LineReader, Sink
from sless.kube import Kube, KubeError, Unavailable
from sless.kube.log_tail import LogTail
from sless.kube.names import KIND, MAIN_CONTAINER, NAMESPACE, RUN, WORKLOAD
from sless.kube.pod_state import created_at_of

Json = dict[str, Any]
T = TypeVar("T")

_log = logging.getLogger(__name__)

MARK = b'{"sless_outcome":'
KEPT_BYTES = 10 * 2**20
"""Default size of a container's log on a node; the beginning of a longer outcome is lost."""
CALL_RESULT_BYTES = 4 * 2**20
"""Limit for a one-off run, whose log contains result and body, both as JSON."""
LIVE_SEC = 2.0
"""How often log lines of a running run are fetched."""
LINES_BYTES = 4 * 2**20
"""Bytes at the end of a log that are read for its lines. Runtimes write up to 256 KB of text per call."""
RETRY_SEC = 1.0
THREADS = 4


class Stopped(Exception):
    """This server stops; the next one concludes the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LiveLog:
    tail: LogTail
    reader: LineReader


class RunLogs:
    """`conclude` calls back unless the server stops; `follow` is cheap enough to call with every view."""

    def __init__(self, kube: Kube, limits: RunLimits, sink: Sink) -> None:
        self._kube = kube
        self._limits = limits
        self._sink = sink
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="sless-kube-runs")
        self._read_at: dict[str, float] = {}
        self._live_logs: dict[str, _LiveLog] = {}
        self._reading: set[str] = set()
        self._rates = OutputRates()
        self._stopping = threading.Event()

    def follow(self, run_id: str, pod: Json) -> None:
        """Delivers the log lines written so far."""
        now = time.monotonic()
        rests = self._rates.rest_sec(label_of(pod, NAMESPACE), now) > 0
        if now - self._read_at.get(run_id, 0.0) >= LIVE_SEC and run_id not in self._reading and not rests:
            self._read_at[run_id] = now
            self._reading.add(run_id)
            self._submit(lambda: self._live(run_id, pod))

    def forget(self, run_id: str) -> None:
        self._read_at.pop(run_id, None)
        self._live_logs.pop(run_id, None)

    def conclude(self, job: Json, pod: Json | None, state: RunState, ended: Callable[[ObservedRun], None]) -> None:
        self._submit(lambda: self._conclude(job, pod, state, ended))

    def close(self) -> None:
        self._stopping.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, work: Callable[[], None]) -> None:
        if not self._stopping.is_set():
            self._pool.submit(work)

    def _live(self, run_id: str, pod: Json) -> None:
        """Top of a pool thread. At the end of the run the whole log is read again; delivered lines are recognised by their number."""
        try:
            metadata = pod["metadata"]
            live = self._live_logs.get(run_id)
            if live is None or live.tail.pod != metadata["name"]:
                tail = LogTail(kube=self._kube, namespace=metadata["namespace"], pod=metadata["name"], container=MAIN_CONTAINER)
                live = self._live_logs[run_id] = _LiveLog(tail=tail, reader=self._reader(pod))
            lines = live.tail.read()
            self._rates.spend(label_of(pod, NAMESPACE), sum(map(len, lines)), time.monotonic())
            live.reader.take("stdout", lines)
        except KubeError as error:
            _log.debug("no log lines of run %s: %s", run_id, error)
        finally:
            self._reading.discard(run_id)
            if run_id not in self._read_at:  # forgotten in the meantime
                self._live_logs.pop(run_id, None)

    def _conclude(self, job: Json, pod: Json | None, state: RunState, ended: Callable[[ObservedRun], None]) -> None:
        """Top of a pool thread; calls `ended` unless the server stops."""
        try:
            if state.end_it and pod is not None:
                state = self._checked(job, pod, state)
            raw = self._last_raw(pod) if state.read_log and pod is not None else b""
            ended(self._outcome(job, pod, state, raw))
            if state.end_it:
                # End the Job in the cluster, too, so that it does not appear to be running.
                age_sec = int((clock.now() - created_at_of(job)).total_seconds())
                self._kube.patch("Job", job["metadata"]["name"], job["metadata"]["namespace"], end_of_job(age_sec))
        except Stopped:
            pass
        except KubeError as error:
            _log.warning("the Job of run %s could not be ended: %s", label_of(job, RUN), error)
        except Exception:
            _log.exception("concluding run %s failed", label_of(job, RUN))
            ended(_observed(job, state, None, "internal error; see the server's log"))

    def _outcome(self, job: Json, pod: Json | None, state: RunState, raw: bytes) -> ObservedRun:
        reader = self._reader(pod or job)
        lines = raw.splitlines()
        reader.take("stdout", newest_of(lines, LINES_BYTES))
        tail = reader.tail()
        if state.status is CallStatus.TIMEOUT or not state.read_log:
            return _observed(job, state, None, "\n".join([state.message, *tail]))
        try:
            outcome = outcome_of(lines, self._limits.of(Kind(label_of(job, KIND))))
        except ResultTooLarge as error:
            return _non_retryable(_observed(job, state, None, str(error)))
        except NoOutcome:
            lost = len(raw) >= KEPT_BYTES * 9 // 10
            text = f"result is over what the cluster keeps of a log ({KEPT_BYTES // 2**20} MB)" if lost else ""
            found = _observed(job, state, None, text or "\n".join([state.message, *tail]))
            return _non_retryable(found) if lost else found
        tail = [] if tail == [outcome.error] else tail  # a single line that is the error itself is not repeated
        return _observed(job, state, outcome, "" if outcome.ok else "\n".join([outcome.error or "", *tail]))

    def _checked(self, job: Json, pod: Json, state: RunState) -> RunState:
        """Checks the current pod before a run counts as over its time limit: while the API does not answer, the view still shows ended
        runs as running. Raises Stopped."""
        metadata = pod["metadata"]
        fields = f"metadata.name={metadata['name']}"
        try:
            found = self._answer_of(lambda: self._kube.list("Pod", namespace=metadata["namespace"], fields=fields))
        except KubeError as error:
            _log.warning("the pod of run %s could not be checked: %s", label_of(job, RUN), error)
            return state
        return next(filter(None, (ended_state_of(job, item) for item in found)), state)

    def _last_raw(self, pod: Json) -> bytes:
        """The whole log of an ended container; b"" if it is gone. Raises Stopped."""
        try:
            return self._answer_of(lambda: self._raw(pod))
        except KubeError as error:
            _log.info("no log of %s: %s", pod["metadata"]["name"], error)
            return b""

    def _answer_of(self, read: Callable[[], T]) -> T:
        """Waits while the API is away. Raises Stopped, KubeError."""
        while True:
            try:
                return read()
            except Unavailable as error:
                _log.debug("waiting for the API: %s", error)
                if self._stopping.wait(RETRY_SEC):
                    raise Stopped from error

    def _raw(self, pod: Json) -> bytes:
        return self._kube.pod_logs(pod["metadata"]["namespace"], pod["metadata"]["name"], container=MAIN_CONTAINER).encode()

    def _reader(self, item: Json) -> LineReader:
        """The reader for a Job or its pod. Lines are numbered per Job, and a retry has its own Job."""
        metadata = item["metadata"]
        owners = metadata.get("ownerReferences") or ()
        source = next((str(owner["uid"]) for owner in owners if owner.get("kind") == "Job"), str(metadata.get("uid") or ""))
        namespace = label_of(item, NAMESPACE)
        return LineReader(source, label_of(item, WORKLOAD), self._sink, namespace=namespace, invocation_id=label_of(item, RUN))


def newest_of(lines: list[bytes], size_bytes: int) -> list[bytes]:
    """The last lines up to this total size, not counting the outcome."""
    chosen: list[bytes] = []
    for line in reversed(lines):
        if line.startswith(MARK):
            continue
        size_bytes -= len(line)
        if size_bytes < 0:
            break
        chosen.append(line)
    return chosen[::-1]


def outcome_of(lines: list[bytes], limit_bytes: int) -> Outcome:
    """Reads the marked line through a file, because a child process splits large outcomes. Raises NoOutcome, ResultTooLarge."""
    marked = next((line for line in reversed(lines) if line.startswith(MARK)), None)
    if marked is None:
        raise NoOutcome("no marked line in the log")
    with tempfile.TemporaryDirectory(prefix="sless-run-") as folder:
        path = Path(folder, "result.json")
        path.write_bytes(marked[len(MARK) :].strip().removesuffix(b"}"))
        return read_outcome(path, limit_bytes)


def _non_retryable(observed: ObservedRun) -> ObservedRun:
    """Marks the run as non-retryable, because a retry would produce a result of the same size."""
    return replace(observed, non_retryable=True)


def _observed(job: Json, state: RunState, outcome: Outcome | None, message: str) -> ObservedRun:
    status = status_of(outcome.ok) if outcome is not None else state.status
    return ObservedRun(
        id=label_of(job, RUN), status=status, outcome=outcome, exit_code=state.exit_code, message=message,
        started_at=state.started_at, ended_at=state.ended_at or clock.now(),
    )  # fmt: skip
