"""Starts, follows and ends runs as Jobs. Keeps only what is not in the Job: the callback, and the outcome from its log."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sless import clock
from sless.backend.kubernetes.instances import Objects
from sless.backend.kubernetes.run_log import RunLogs
from sless.backend.kubernetes.run_manifests import ATTEMPT, MAX_EVENT_BYTES, event_secret, job_of, run_env_secret
from sless.backend.kubernetes.run_observation import RunState, run_state_of
from sless.backend.kubernetes.view import CachedObject, ClusterView
from sless.backend.kubernetes.writer import Writer
from sless.clock import parse_rfc3339
from sless.domain.model import CallStatus
from sless.domain.ports import ObservedRun, RunSpec
from sless.errors import Code, SlessError
from sless.ids import new_id
from sless.kube import Conflict
from sless.kube.names import ROLE, ROLE_RUN, RUN, cluster_namespace_of, find_code_map, run_name_of
from sless.kube.pod_state import created_at_of

Json = dict[str, Any]
Done = Callable[[ObservedRun], None]

_log = logging.getLogger(__name__)

START_WITHIN = timedelta(seconds=25)
"""A run whose Job cannot be created within this time has failed."""
LISTED_WITHIN = timedelta(seconds=10)
NO_POD_AFTER = timedelta(seconds=3)
"""If a Job has no pod after this time, the reason is looked up in the cluster's events."""
ORPHAN_AFTER = timedelta(minutes=10)


@dataclass(slots=True, eq=False, kw_only=True)
class Record:
    """One run. `uid` is that of the Job created here (its predecessor may still be listed), "" while it is being created; None for a run
    that another process started."""

    id: str
    namespace: str
    uid: str | None
    spec: RunSpec | None = None
    done: Done | None = None
    since: datetime = field(default_factory=clock.now)
    attempt: str = field(default_factory=new_id)
    """Tells our Job from that of an earlier attempt, even if the answer to its creation was lost."""
    listed: bool = False
    ending: bool = False
    ended: ObservedRun | None = None
    removing: bool = False


class KubernetesRuns:
    """Only `_end` sets `ended` of a record, once. Calls `changed` when a run has ended."""

    def __init__(self, objects: Objects, writer: Writer, logs: RunLogs, changed: Callable[[], None]) -> None:
        self._objects = objects
        self._writer = writer
        self._logs = logs
        self._changed = changed
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}

    def start(self, run: RunSpec, done: Done, view: ClusterView | None) -> None:
        with self._lock:
            known = self._records.get(run.id)
            if (known is not None and not known.removing) or (known is None and view is not None and run.id in view.jobs):
                return
            record = Record(id=run.id, namespace=cluster_namespace_of(run.revision.namespace), uid="", spec=run, done=done)
            self._records[run.id] = record
        self._writer.drop(_key(run.id))
        self._writer.put(_key(run.id), lambda: self._create(record, run, again=known is not None))

    def observe(self, view: ClusterView) -> dict[str, ObservedRun]:
        with self._lock:
            found = {record.id: record.ended or _running(record.id, record.since)
                     for record in self._records.values() if not record.removing}  # fmt: skip
            fresh = {run_id: _running(run_id, created_at_of(job)) for run_id, job in view.jobs.items() if run_id not in self._records}
        return fresh | found

    def remove(self, run_id: str, view: ClusterView | None) -> None:
        with self._lock:
            record = self._records.get(run_id)
            if record is None and view is not None and run_id in view.jobs:
                record = self._records[run_id] = _foreign(run_id, view.jobs[run_id])
            if record is None or record.removing:
                return
        # Notifies the caller.
        self._end(record, _ended_as(record, CallStatus.CANCELLED, "cancelled"))
        with self._lock:
            record.removing = True
        self._writer.drop(_key(run_id))
        self._writer.put(_key(run_id), lambda: self._delete(record))

    def is_busy(self) -> bool:
        with self._lock:
            return any(record.ended is None or record.removing for record in self._records.values())

    # --- in the thread of `Observer` ---

    def on_view(self, view: ClusterView) -> None:
        now = clock.now()
        refusals = self._refusals(view, now)
        with self._lock:
            for run_id in view.jobs.keys() - self._records.keys():
                self._records[run_id] = _foreign(run_id, view.jobs[run_id])
            records = list(self._records.values())
        for record in records:
            job = view.jobs.get(record.id)
            mine = job is not None and record.uid in (None, job["metadata"].get("uid"))
            if record.removing:
                self._forget_removed(record, there=job is not None)
            elif record.uid == "":
                self._retry_creation(record, now)
            elif not mine or job is None:
                self._on_missing_job(record, now)
            elif record.ended is None and not record.ending:
                record.listed = True
                pod, refusal = view.run_pods.get(record.id), refusals.get(job["metadata"]["name"], "")
                refused_sec = self._objects.durations.refused_run_sec if view.settled else None
                self._follow(record, job, pod, run_state_of(job, pod, refusal, now, refused_sec))

    def orphans(self, view: ClusterView) -> list[CachedObject]:
        """Secrets of runs whose Job is gone."""
        now = clock.now()
        return [
            cached
            for cached in self._objects.cache.all()
            if (cached.kind, cached.labels.get(ROLE)) == ("Secret", ROLE_RUN)
            and cached.labels.get(RUN) not in view.jobs
            and cached.labels.get(RUN) not in self._records
            and now - parse_rfc3339(cached.created_at) > ORPHAN_AFTER
        ]

    def _follow(self, record: Record, job: Json, pod: Json | None, state: RunState) -> None:
        if state.status is CallStatus.RUNNING:
            if pod is not None and state.started_at is not None:
                self._logs.follow(record.id, pod)
            return
        record.ending = True
        self._logs.conclude(job, pod, state, lambda ended: self._end(record, ended))

    def _retry_creation(self, record: Record, now: datetime) -> None:
        """Retries what the cluster refused, until START_WITHIN."""
        failure = self._writer.find_failure(_key(record.id))
        if failure is None or record.spec is None or self._writer.is_busy(_key(record.id)):
            return
        if failure.final or (failure.message and now - record.since > START_WITHIN):
            self._end(record, _failed(record, failure.message))
            return
        spec = record.spec
        self._writer.put(_key(record.id), lambda: self._create(record, spec, again=True))

    def _on_missing_job(self, record: Record, now: datetime) -> None:
        """Called if the run's Job is not listed."""
        if record.ended is not None or record.ending or not (record.listed or now - record.since > LISTED_WITHIN):
            return
        if record.spec is None:
            with self._lock:
                self._records.pop(record.id, None)
            return
        self._end(record, _failed(record, "the run's Job was deleted from the cluster"))

    def _forget_removed(self, record: Record, *, there: bool) -> None:
        busy = self._writer.is_busy(_key(record.id))
        if there and not busy:
            self._writer.put(_key(record.id), lambda: self._delete(record))
        elif not there and not busy:
            with self._lock:
                if self._records.get(record.id) is record:
                    del self._records[record.id]
            self._logs.forget(record.id)
            self._writer.drop(_key(record.id))

    def _refusals(self, view: ClusterView, now: datetime) -> dict[str, str]:
        """The cluster's last refusal of a pod, by name of the Job. At most one call. Raises KubeError."""
        if not any(_lacks_pod(job, now) for run_id, job in view.jobs.items() if run_id not in view.run_pods):
            return {}
        events = self._objects.kube.list("Event", fields="reason=FailedCreate,involvedObject.kind=Job")
        return {event["involvedObject"]["name"]: event.get("message", "") for event in sorted(events, key=_last_seen)}

    def _end(self, record: Record, ended: ObservedRun) -> None:
        with self._lock:
            if record.ended is not None:
                return
            record.ended = ended
            done = record.done
        if done is not None:
            try:
                done(ended)
            except Exception:
                _log.exception("the callback of run %s failed", record.id)
        self._changed()

    # --- writing, in the writer's threads ---

    def _create(self, record: Record, run: RunSpec, *, again: bool) -> None:
        """`again`: deletes remains of an earlier attempt first. Raises KubeError, SlessError."""
        if len(run.event.encode()) > MAX_EVENT_BYTES:
            text = f"event is {len(run.event.encode())} bytes, over the limit of {MAX_EVENT_BYTES} for a run without instances"
            raise SlessError(Code.TOO_LARGE, text + "; an http trigger gives the function instances")
        job = job_of(self._objects.fit, run)
        job["metadata"]["annotations"][ATTEMPT] = record.attempt
        found = self._objects.kube.find("Job", job["metadata"]["name"], job["metadata"]["namespace"]) if again else None
        if found is not None and (found["metadata"].get("annotations") or {}).get(ATTEMPT) == record.attempt:
            record.uid = str(found["metadata"]["uid"])
            return
        if found is not None:
            self._delete(record)
            raise Conflict(409, "Deleting", "the previous attempt is still being deleted")

        def write() -> None:
            self._objects.ensure_code(run.revision, find_code_map(run.revision.artifact))
            self._objects.kube.apply(run_env_secret(self._objects.fit, run))
            self._objects.kube.apply(event_secret(self._objects.fit, run))
            made = self._objects.kube.create(job)
            record.uid = str(made["metadata"].get("uid") or "")

        self._objects.in_tenant(run.revision.namespace, write)
        record.since = clock.now()

    def _delete(self, record: Record) -> None:
        name, namespace = run_name_of(record.id), record.namespace
        self._objects.kube.delete("Job", name, namespace)
        for secret in (name, f"{name}-event"):
            self._objects.kube.delete("Secret", secret, namespace)
        if record.removing:
            self._end(record, ObservedRun(id=record.id, status=CallStatus.CANCELLED, message="cancelled", ended_at=clock.now()))


def _key(run_id: str) -> str:
    return f"run:{run_id}"


def _running(run_id: str, since: datetime) -> ObservedRun:
    return ObservedRun(id=run_id, status=CallStatus.RUNNING, started_at=since)


def _failed(record: Record, message: str) -> ObservedRun:
    return _ended_as(record, CallStatus.FAILED, message)


def _ended_as(record: Record, status: CallStatus, message: str) -> ObservedRun:
    return ObservedRun(id=record.id, status=status, message=message, started_at=record.since, ended_at=clock.now())


def _foreign(run_id: str, job: Json) -> Record:
    return Record(id=run_id, namespace=job["metadata"]["namespace"], uid=None, since=created_at_of(job), listed=True)


def _lacks_pod(job: Json, now: datetime) -> bool:
    return not job.get("status", {}).get("conditions") and now - created_at_of(job) > NO_POD_AFTER


def _last_seen(event: Json) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
