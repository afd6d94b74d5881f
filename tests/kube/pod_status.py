"""A Pod's status as the kubelet reports it, from the states of its containers. Pure."""

from dataclasses import dataclass, field
from typing import Any

from tests.kube.registry import now_text

Object = dict[str, Any]
TAIL_LINES, TAIL_BYTES = 80, 2048


@dataclass(slots=True)
class State:
    """One container: `waiting` (reason, message), running since, or last termination."""

    name: str
    image: str
    waiting: tuple[str, str] = ("ContainerCreating", "")
    running_since: str = ""
    ended: Object | None = None
    last_end: Object | None = None
    started: bool = False
    ready: bool = False
    restarts: int = 0
    id: str = ""

    def set_waiting(self, reason: str, message: str = "") -> None:
        self.waiting, self.running_since, self.ended = (reason, message), "", None
        self.ready = self.started = False

    def set_running(self, container_id: str) -> None:
        if self.ended is not None:
            self.last_end, self.ended = self.ended, None
        self.running_since, self.id, self.ready, self.started = now_text(), container_id, False, False

    def set_ended(self, code: int, reason: str, message: str) -> None:
        self.ended = {
            "exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), "startedAt": self.running_since or now_text(),
            "finishedAt": now_text(), "containerID": self.id, **({"message": message} if message else {}),
        }  # fmt: skip
        self.running_since, self.ready, self.started = "", False, False

    def set_backing_off(self, message: str) -> None:
        """Between a termination and the next start."""
        self.last_end, self.ended = self.ended or self.last_end, None
        self.waiting = ("CrashLoopBackOff", message)

    def as_status(self) -> Object:
        if self.ended is not None:
            state: Object = {"terminated": self.ended}
        elif self.running_since:
            state = {"running": {"startedAt": self.running_since}}
        else:
            state = {"waiting": {"reason": self.waiting[0], **({"message": self.waiting[1]} if self.waiting[1] else {})}}
        return {
            "name": self.name, "image": self.image, "imageID": self.image, "ready": self.ready, "started": self.started,
            "restartCount": self.restarts, "state": state, "lastState": {"terminated": self.last_end} if self.last_end else {},
            **({"containerID": self.id} if self.id else {}),
        }  # fmt: skip


@dataclass(slots=True)
class PodState:
    init: list[State] = field(default_factory=list)
    main: list[State] = field(default_factory=list)
    restart: str = "Always"
    address: str = ""
    initialized: bool = False
    reason: str = ""
    message: str = ""

    def phase(self) -> str:
        if self.reason == "Evicted":
            return "Failed"
        if any(one.ended and one.ended["exitCode"] for one in self.init) and self.restart == "Never":
            return "Failed"
        ends = [one.ended for one in self.main]
        if self.main and all(ends) and self.restart != "Always":
            good = all(end is not None and end["exitCode"] == 0 for end in ends)
            if good or self.restart == "Never":
                return "Succeeded" if good else "Failed"
        begun = any(one.running_since or one.ended or one.last_end for one in self.main)
        return "Running" if begun else "Pending"

    def status(self, before: list[Object], started: str) -> Object:
        """`before`: the previous conditions; unchanged ones keep their times."""
        ready = bool(self.main) and all(one.ready for one in self.main)
        why = "" if ready else "ContainersNotReady" if self.phase() in ("Pending", "Running") else "PodCompleted"
        unready = [one.name for one in self.main if not one.ready]
        message = "" if ready else f"containers with unready status: [{' '.join(unready)}]"
        conditions_now = [
            _condition("PodScheduled", True), _condition("Initialized", self.initialized),
            _condition("ContainersReady", ready, why, message), _condition("Ready", ready, why, message),
        ]  # fmt: skip
        known = {one["type"]: one for one in before}
        conditions = [
            {**one, "lastTransitionTime": known[one["type"]]["lastTransitionTime"]}
            if known.get(one["type"], {}).get("status") == one["status"]
            else one
            for one in conditions_now
        ]
        status: Object = {
            "phase": self.phase(), "conditions": conditions, "hostIP": "127.0.0.1", "startTime": started,
            "containerStatuses": [one.as_status() for one in self.main],
            "initContainerStatuses": [one.as_status() for one in self.init] or None,
            "reason": self.reason or None, "message": self.message or None,
        }  # fmt: skip
        if self.address:
            status |= {"podIP": self.address, "podIPs": [{"ip": self.address}]}
        return status


def _condition(type_: str, status: bool, reason: str = "", message: str = "") -> Object:
    return {
        "type": type_, "status": "True" if status else "False", "lastTransitionTime": now_text(),
        **({"reason": reason} if reason else {}), **({"message": message} if message else {}),
    }  # fmt: skip
