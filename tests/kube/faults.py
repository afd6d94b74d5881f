"""Injected faults."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tests.kube.errors import Refused
from tests.kube.recorder import Request


@dataclass(slots=True)
class Fault:
    """The next `times` matching requests get `status` after `delay_sec`. Empty fields match everything."""

    status: int = 0
    times: int = 1
    delay_sec: float = 0.0
    verbs: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    message: str = ""
    after: bool = False
    """Carries out the request first: the client sees the failure, but the write has taken effect."""

    def takes(self, request: Request) -> bool:
        return (
            self.times > 0 and (not self.verbs or request.verb in self.verbs) and (not self.resources or request.resource in self.resources)
        )


@dataclass(slots=True)
class Faults:
    injected: list[Fault] = field(default_factory=list)
    expire_continue: bool = False
    stall_namespaces: bool = False
    """Namespaces stay Terminating."""

    def add(self, given: dict[str, Any]) -> None:
        self.injected.append(Fault(**{**given, "verbs": tuple(given.get("verbs", ())), "resources": tuple(given.get("resources", ()))}))

    def clear(self) -> None:
        self.injected.clear()
        self.expire_continue = self.stall_namespaces = False

    async def strike(self, request: Request, *, after: bool = False) -> None:
        """Delays the request or raises, if a fault matches."""
        for fault in list(self.injected):
            if fault.after != after or not fault.takes(request):
                continue
            fault.times -= 1
            if fault.times <= 0:
                self.injected.remove(fault)
            if fault.delay_sec:
                await asyncio.sleep(fault.delay_sec)
            if fault.status:
                raise self.refusal(fault)

    @staticmethod
    def refusal(fault: Fault) -> Refused:
        texts = {
            409: "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version",
            429: "too many requests, please try again later",
            500: "Internal error occurred: etcdserver: leader changed",
            503: "the server is currently unable to handle the request",
        }
        details = {"retryAfterSeconds": 1} if fault.status == 429 else None
        return Refused(fault.status, fault.message or texts.get(fault.status, "injected by the test"), details=details)
