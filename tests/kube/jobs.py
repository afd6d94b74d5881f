"""Jobs: Pods, attempts, deadlines, and removal after ttlSecondsAfterFinished."""

import threading
import time
from collections.abc import Callable
from typing import Any

from tests.kube.conditions import RETRY_SEC, condition, create_pod, is_deleting, is_ended, is_ready, since, with_condition
from tests.kube.errors import Refused
from tests.kube.kinds import kind_of
from tests.kube.loops import Loop, add_owners
from tests.kube.registry import DeleteOptions, Object, Registry, now_text

REPORT_SEC = 2.0
"""How long a kubelet may take to report the end of a container."""
FROZEN_SEC = 1.0


class Pulse:
    """Notices that a signal stopped the process. Containers continue meanwhile, so one that ended in time must be reported before its
    Job fails at the deadline."""

    def __init__(self) -> None:
        self._beat_at, self._thawed_at = time.monotonic(), float("-inf")
        threading.Thread(target=self._run, name="pulse", daemon=True).start()

    def just_thawed(self) -> bool:
        now = time.monotonic()
        return now - self._beat_at > FROZEN_SEC or now - self._thawed_at < REPORT_SEC

    def _run(self) -> None:
        while True:
            time.sleep(FROZEN_SEC / 10)
            now = time.monotonic()
            if now - self._beat_at > FROZEN_SEC:
                self._thawed_at = now
            self._beat_at = now


class Jobs:
    def __init__(self, registry: Registry, failed: Callable[[str], None]) -> None:
        self.registry = registry
        self._loop = Loop(self._sync, failed)
        self._ended_at: dict[str, float] = {}
        self._pulse = Pulse()

    def on(self, event: str, item: Object) -> None:
        if item["kind"] == "Job":
            self._loop.add_object(item)
        elif item["kind"] == "Pod":
            add_owners(self.registry, self._loop, item, "Job")

    def _sync(self, namespace: str, name: str) -> None:
        job = self.registry.find("Job", namespace, name)
        if job is None or is_deleting(job):
            return
        status = job.get("status") or {}
        if any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in status.get("conditions") or []):
            self._expire(job)
            return
        if job["spec"].get("suspend"):
            return
        if not status.get("startTime"):
            job = self.registry.write_status(job, {"startTime": now_text()})
        pods = self.registry.pods_of(job, job["spec"]["selector"])
        failed = sum((pod.get("status") or {}).get("phase") == "Failed" for pod in pods)
        succeeded = sum((pod.get("status") or {}).get("phase") == "Succeeded" for pod in pods)
        active = [pod for pod in pods if not is_ended(pod)]
        counts = {
            "active": len(active) or None, "failed": failed or None, "succeeded": succeeded or None,
            "ready": sum(is_ready(pod) for pod in active),
        }  # fmt: skip
        ending = self._ending(job, failed, succeeded)
        if ending is None:
            if not active and not self._start_pod(job, failed):
                return
            self.registry.write_status(job, counts | ({"active": 1} if not active else {}))
            return
        self._end(job, active, counts, ending)

    def _ending(self, job: Object, failed: int, succeeded: int) -> Object | None:
        """The condition that ends the Job, if any. Once decided, it stays whatever happens to the Pods."""
        spec = job["spec"]
        finals = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
        for decided in (job.get("status") or {}).get("conditions") or []:
            if decided["type"] in finals:
                return {**decided, "type": finals[decided["type"]]}
        if succeeded >= spec["completions"]:
            return condition("Complete", True, "CompletionsReached", "Reached expected number of succeeded pods")
        if failed > spec["backoffLimit"]:
            return condition("Failed", True, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        deadline = spec.get("activeDeadlineSeconds")
        started = (job.get("status") or {}).get("startTime")
        if deadline is not None and started:
            left = deadline - since(started)
            if left <= 0 and not self._pulse.just_thawed():
                return condition("Failed", True, "DeadlineExceeded", "Job was active longer than specified deadline")
            self._loop.later(left if left > 0 else REPORT_SEC, job["metadata"]["namespace"], job["metadata"]["name"])
        return None

    def _start_pod(self, job: Object, failed: int) -> bool:
        """False if admission rejects the Pod, or if the Job must back off after a failure."""
        try:
            create_pod(self.registry, job, job["spec"]["template"])
            return True
        except Refused as refusal:
            self.registry.record_event(job, "Warning", "FailedCreate", f"Error creating: {refusal.message}")
            self._loop.later(RETRY_SEC, job["metadata"]["namespace"], job["metadata"]["name"])
            return False

    def _end(self, job: Object, active: list[Object], counts: Object, ending: Object) -> None:
        """Deletes the Pods first; the Job ends once they are gone."""
        conditions = (job.get("status") or {}).get("conditions") or []
        first = "SuccessCriteriaMet" if ending["type"] == "Complete" else "FailureTarget"
        conditions = with_condition(conditions, {**ending, "type": first})
        for pod in active:
            if not is_deleting(pod):
                self.registry.delete(kind_of("Pod"), pod["metadata"]["namespace"], pod["metadata"]["name"], DeleteOptions())
        if self.registry.pods_of(job, job["spec"]["selector"]) and any(
            not is_ended(pod) for pod in self.registry.pods_of(job, job["spec"]["selector"])
        ):
            self.registry.write_status(job, counts | {"conditions": conditions})
            return
        conditions = with_condition(conditions, ending)
        done = {"completionTime": now_text()} if ending["type"] == "Complete" else {}
        failed = {"failed": (counts["failed"] or 0) + len(active)} if active and ending["type"] == "Failed" else {}
        self._ended_at[job["metadata"]["uid"]] = time.monotonic()
        job = self.registry.write_status(job, counts | {"active": None, "ready": 0, "conditions": conditions} | done | failed)
        self.registry.record_event(job, "Normal" if done else "Warning", ending["reason"], ending["message"])

    def _expire(self, job: Object) -> None:
        ttl: Any = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        left = self._ended_at.get(job["metadata"]["uid"], time.monotonic()) + ttl - time.monotonic()
        if left > 0:
            self._loop.later(left, job["metadata"]["namespace"], job["metadata"]["name"])
            return
        self.registry.delete(kind_of("Job"), job["metadata"]["namespace"], job["metadata"]["name"], DeleteOptions(propagation="Foreground"))
