"""Follows one Job in the cluster until it ends: copies its log and detects why it cannot start."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sless.builder.failures import BuildFailed, plain_of
from sless.builder.job_words import Ended, find_condition, find_ended, find_trouble, has_begun, is_evicted
from sless.builder.work import BuildCancelled, Work
from sless.kube import Kube, KubeError, Unavailable
from sless.kube.log_tail import LogTail
from sless.kube.names import BUILD, INSTALLATION
from sless.kube.pod_state import PodTrouble

_log = logging.getLogger(__name__)

Json = dict[str, Any]

TICK_SEC = 0.25
LOST_TICKS = 3
"""A Job that is missing this many times in a row has been deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef:
    """A Job of a build. Its `containers` run one after the other; the log of a `quiet` one is only copied if it fails; `what` describes
    the Job in messages."""

    namespace: str
    job: str
    build_id: str
    installation: str
    containers: tuple[str, ...]
    what: str
    quiet: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """`ended` is the state of the last pod's `container` (the one that failed), None if the cluster ended the pod first."""

    ok: bool
    ended: Ended | None
    reason: str = ""
    container: str = ""


@dataclass(slots=True, kw_only=True)
class JobWatch:
    """Watches one Job. `start_sec`: how long a pod may fail to start. `limit_sec` counts from the start of the last container;
    `is_non_retryable`: every other attempt would fail, too."""

    kube: Kube
    work: Work
    ref: JobRef
    start_sec: float
    limit_sec: float | None = None
    limit_message: str = ""
    is_non_retryable: Callable[[str, Ended], bool] = lambda container, ended: False
    _logs: dict[tuple[str, str], LogTail] = field(default_factory=dict)
    """Position in the logs, by pod and container."""
    _complete: set[tuple[str, str]] = field(default_factory=set)
    _failing_since: float | None = None
    _begun_at: float | None = None
    _waiting: str = ""
    """Why the cluster has no room yet."""
    _lost: int = 0

    def run(self) -> End:
        """Raises BuildCancelled, BuildFailed (timed out, cannot start, deleted)."""
        while True:
            self._check_time()
            try:
                end = self._observe()
            except Unavailable as error:
                _log.warning("%s of build %s: %s", self.ref.what, self.ref.build_id, error)
                # The next observation may be stale: nodes update their status after the API is back.
                self._failing_since = self._begun_at = None
                end = None
            except KubeError as error:
                raise BuildFailed(f"{self.ref.what} cannot be followed: {error.message}") from error
            if end is not None:
                return end
            if self.work.cancelled.wait(TICK_SEC):
                raise BuildCancelled

    def _check_time(self) -> None:
        """Raises BuildCancelled, BuildFailed."""
        try:
            self.work.check_time()
        except BuildFailed:
            if self._waiting:
                raise BuildFailed(self._waiting) from None
            raise

    def _observe(self) -> End | None:
        job = self.kube.find("Job", self.ref.job, self.ref.namespace)
        if job is None or job["metadata"].get("deletionTimestamp"):
            self._lost += 1
            if self._lost >= LOST_TICKS:
                raise BuildFailed(f"{self.ref.what}: its Job {self.ref.job} was deleted")
            return None
        self._lost = 0
        pods = self._pods()
        for pod in pods:
            self._report_log(pod)
            if (end := self._find_failed(pod)) and self.is_non_retryable(*end):
                return End(ok=False, ended=end[1], container=end[0])
        # Wait only for the exit of the last container, since the cluster completes the Job two seconds later.
        last = find_ended(pods[-1], self.ref.containers[-1]) if pods else None
        if find_condition(job, "Complete") or (last is not None and last.exit_code == 0):
            return End(ok=True, ended=last)
        if failed := find_condition(job, "Failed"):
            return self._failed(failed, pods)
        self._check_start(pods)
        self._check_limit(pods)
        return None

    def _pods(self) -> list[Json]:
        """Oldest first."""
        selector = f"{INSTALLATION}={self.ref.installation},{BUILD}={self.ref.build_id}"
        pods = self.kube.list("Pod", namespace=self.ref.namespace, selector=selector)
        owned = [pod for pod in pods if any(owner.get("name") == self.ref.job for owner in pod["metadata"].get("ownerReferences") or ())]
        return sorted(owned, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def _find_failed(self, pod: Json) -> tuple[str, Ended] | None:
        ends = ((container, find_ended(pod, container)) for container in self.ref.containers)
        return next(((container, ended) for container, ended in ends if ended and ended.exit_code), None)

    def _report_log(self, pod: Json) -> None:
        failed = self._find_failed(pod)
        for container in self.ref.containers:
            if has_begun(pod, container) and (container not in self.ref.quiet or (failed and failed[0] == container)):
                self._copy_log(pod, container)

    def _copy_log(self, pod: Json, container: str) -> None:
        """Logs new lines since the last call."""
        name = pod["metadata"]["name"]
        if (name, container) in self._complete:
            return
        if (name, container) not in self._logs:
            known = {pod_name for pod_name, _ in self._logs}
            if self._logs:
                self.work.begin()
            if known and name not in known:
                self.work.log(f"[attempt {len(known) + 1}]")
            self._logs[name, container] = LogTail(kube=self.kube, namespace=self.ref.namespace, pod=name, container=container)
        ended = find_ended(pod, container) is not None
        try:
            lines = self._logs[name, container].read(ended=ended)
        except Unavailable:
            raise
        except KubeError:  # the pod or its log is gone; the Job has the outcome
            return
        if ended:
            self._complete.add((name, container))
        if fresh := [line for raw in lines if (line := plain_of(raw))]:
            self.work.log(*fresh)

    def _failed(self, condition: Json, pods: list[Json]) -> End:
        if condition.get("reason") == "DeadlineExceeded":
            return End(ok=False, ended=None, reason="deadline")
        last = pods[-1] if pods else None
        failed = self._find_failed(last) if last else None
        evicted = is_evicted(last) if last else None
        reason = evicted or str(condition.get("message") or condition.get("reason") or "")
        return End(ok=False, ended=failed[1] if failed else None, reason=reason, container=failed[0] if failed else "")

    def _check_start(self, pods: list[Json]) -> None:
        """Raises BuildFailed."""
        trouble = find_trouble(pods[-1:], self._events() if not pods else ())
        if trouble is None or trouble.quota:
            self._failing_since = None
            self._wait_for_room(self._start_message_of(trouble) if trouble else "")
            return
        now = time.monotonic()
        self._failing_since = self._failing_since if self._failing_since is not None else now
        if trouble.final or now - self._failing_since >= self.start_sec:
            raise BuildFailed(self._start_message_of(trouble))

    def _wait_for_room(self, reason: str) -> None:
        """Lets the cluster retry, within the build's time limit. Writes the reason once to the log, and to the version's message while it
        waits."""
        if reason and not self._waiting:
            self.work.log(f"{reason}; waiting")
        if reason != self._waiting:
            self.work.note(f"waiting: {reason}" if reason else "")
        self._waiting = reason

    def _start_message_of(self, trouble: PodTrouble) -> str:
        return f"{self.ref.what} cannot start: {trouble.text}"

    def _events(self) -> list[Json]:
        fields = f"involvedObject.kind=Job,involvedObject.name={self.ref.job}"
        return self.kube.list("Event", namespace=self.ref.namespace, fields=fields)

    def _check_limit(self, pods: list[Json]) -> None:
        """Raises BuildFailed."""
        if self.limit_sec is None or not pods or not has_begun(pods[-1], self.ref.containers[-1]):
            return
        now = time.monotonic()
        self._begun_at = self._begun_at if self._begun_at is not None else now
        if now - self._begun_at > self.limit_sec:
            raise BuildFailed(self.limit_message)
