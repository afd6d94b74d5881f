"""One workload in the table: its policy, its instances, and the calls waiting for one."""

import asyncio
from bisect import insort
from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import NamedTuple

from sless import metrics
from sless.domain.model import Kind
from sless.domain.ports import Route
from sless.errors import STATUS, Code, SlessError
from sless.proxy.connection import UpstreamConnection
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.policy import Policy
from sless.proxy.tenants import LiveTenant
from sless.proxy.wait_queue import WaitQueue

_RETRY_SEC = 0.1
_Waiter = asyncio.Future[LiveEndpoint | None]
RETRY_AFTER_SEC = 5


class Leased(NamedTuple):
    live: "LiveRoute"
    instance: LiveEndpoint
    connection: UpstreamConnection


class LiveRoute:
    """When a call ends, its slot goes to the call that has waited longest. New calls never overtake waiting ones."""

    def __init__(self, route: Route, queue: WaitQueue, tenant: LiveTenant, waits: Callable[["LiveRoute"], None]) -> None:
        """`waits` is called when a call begins to wait."""
        self.route = route
        self.tenant = tenant
        self._queue = queue
        self._waits = waits
        self.policy = Policy(route.http) if route.http else None
        self.instances: list[LiveEndpoint] = []
        self.removed = False
        self.direct = False
        """Whether calls may go straight to an instance, without checking trigger and state of the workload."""
        self._by_id: dict[str, LiveEndpoint] = {}
        self._waiters: list[tuple[int, _Waiter]] = []
        """Sorted by ticket: a call that was woken in vain keeps its position."""
        self._tickets = count()
        self._turn = 0

    @property
    def waiting(self) -> int:
        """Number of calls waiting for a slot."""
        return len(self._waiters)

    @property
    def in_flight(self) -> int:
        """Number of calls on instances that take new ones."""
        return sum(instance.active for instance in self.instances)

    @property
    def slots(self) -> int:
        """Number of concurrent calls that these instances take."""
        return sum(instance.slots for instance in self.instances)

    def count_calls(self) -> bool:
        """Whether there were calls since this was last called."""
        fresh = False
        for instance in self.instances:
            if instance.counted != instance.calls:
                instance.counted = instance.calls
                fresh = True
        return fresh

    # --- for the table ---

    def update(self, route: Route, draining: Callable[[LiveEndpoint], None]) -> None:
        """`draining` is called for each instance that gets no more calls."""
        if route.http != self.route.http:
            self.policy = Policy(route.http) if route.http else None
        self.route = route
        slots = route.revision.concurrency if route.revision else 1
        wanted = {endpoint.id: endpoint for endpoint in route.endpoints if not endpoint.draining}
        for endpoint_id in list(self._by_id):
            if endpoint_id not in wanted:
                instance = self._by_id.pop(endpoint_id)
                instance.retire()
                draining(instance)
        for endpoint_id, endpoint in wanted.items():
            instance = self._by_id.setdefault(endpoint_id, LiveEndpoint(endpoint, slots))
            instance.slots = slots
        self.instances = list(self._by_id.values())
        passes = self.policy.open if self.policy else route.kind is Kind.SERVICE
        self.direct = passes and route.wants_instances and route.blocked is None
        self._wake_all()

    def remove(self, draining: Callable[[LiveEndpoint], None]) -> None:
        """The workload has been deleted."""
        self.removed = True
        self.direct = False
        for instance in self.instances:
            instance.retire()
            draining(instance)
        self.instances = []
        self._by_id.clear()
        self._wake_all()

    # --- for calls ---

    def check_served(self) -> None:
        """Raises SlessError when calls cannot be served now. A disabled http trigger concerns only /fn, which checks it (`invoke`)."""
        route = self.route
        if self.removed:
            raise SlessError(Code.NOT_FOUND, f'{route.kind} "{route.name}" not found')
        if route.blocked is not None and route.blocked[0] is not Code.DISABLED:
            code, sentence = route.blocked
            passes = STATUS[code] == 503 and code not in (Code.BUILD_FAILED, Code.SUSPENDED)
            raise SlessError(code, sentence, retry_after_sec=RETRY_AFTER_SEC if passes else None)

    def find_free(self, now: float) -> LiveEndpoint | None:
        """Takes a slot on the instance with the fewest calls, if any is free. Instances with equally many take turns."""
        instances = self.instances
        if len(instances) == 1:
            best: LiveEndpoint | None = instances[0]
            if instances[0].active >= instances[0].slots or instances[0].suspended(now):
                return None
        else:
            best = self._least_busy(now)
        if best is not None:
            best.active += 1
        return best

    async def take(self, wait_sec: float, deadline: float | None = None) -> LiveEndpoint:
        """Takes a slot on an instance. Raises SlessError: blocked, removed, overloaded, or no slot within `wait_sec`. `deadline` is
        the end of that time if a part of it has passed."""
        if found := self.find_slot():
            return found
        began = monotonic()
        with self._queue.place(self.route):
            found = await self._take_in_turn(wait_sec, began + wait_sec if deadline is None else deadline)
        metrics.queue_wait.observe(monotonic() - began)
        return found

    async def _take_in_turn(self, wait_sec: float, deadline: float) -> LiveEndpoint:
        ticket = next(self._tickets)
        while (now := monotonic()) < deadline:
            found = await self._wait(ticket, min(deadline - now, _RETRY_SEC if self._some_suspended(now) else 60.0))
            if found is not None:
                return found
            self.check_served()
            if found := self.find_free(monotonic()):
                return found
        raise self._no_instance(wait_sec)

    def find_slot(self) -> LiveEndpoint | None:
        """Takes a slot if one is free and no call is waiting. Raises SlessError as `check_served` does."""
        self.check_served()
        return None if self._waiters else self.find_free(monotonic())

    def find_idle(self) -> Leased | None:
        """A slot and an idle connection, if both are available and no call is waiting."""
        if self._waiters:
            return None
        turn = self._turn
        instance = self.find_free(monotonic())
        if instance is None:
            return None
        connection = instance.find_idle()
        if connection is None:
            # Let the slow path pick this instance and open a connection; otherwise an instance without one never gets its turn.
            self._turn = turn
            instance.active -= 1
            return None
        return Leased(self, instance, connection)

    def release(self, instance: LiveEndpoint) -> None:
        """Releases a slot, or passes it to the first waiting call."""
        while self._waiters and not instance.gone and instance.active <= instance.slots and not instance.suspended(monotonic()):
            _, waiter = self._waiters.pop(0)
            if not waiter.done():
                waiter.set_result(instance)
                return
        instance.active -= 1

    def release_unreachable(self, instance: LiveEndpoint) -> None:
        """Releases a slot on an instance that could not be reached; it gets no calls for a moment."""
        instance.suspend(monotonic())
        instance.active -= 1
        self._wake_all()

    def trust(self, instance: LiveEndpoint) -> None:
        """Lets an instance that has answered get calls again."""
        instance.suspect = False
        self._wake_all()

    async def _wait(self, ticket: int, timeout_sec: float) -> LiveEndpoint | None:
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        insort(self._waiters, (ticket, waiter))
        self._waits(self)
        try:
            async with asyncio.timeout(timeout_sec):
                return await waiter
        except TimeoutError:
            return self._result_of(waiter)
        except asyncio.CancelledError:
            if instance := self._result_of(waiter):
                self.release(instance)
            raise
        finally:
            if (ticket, waiter) in self._waiters:
                self._waiters.remove((ticket, waiter))

    @staticmethod
    def _result_of(waiter: _Waiter) -> LiveEndpoint | None:
        """Releases a slot that arrived just as the wait ended for another reason."""
        return waiter.result() if waiter.done() and not waiter.cancelled() else None

    def _least_busy(self, now: float) -> LiveEndpoint | None:
        best: LiveEndpoint | None = None
        size = len(self.instances)
        for offset in range(size):
            instance = self.instances[(self._turn + offset) % size]
            if instance.active < instance.slots and (best is None or instance.active < best.active) and not instance.suspended(now):
                best = instance
        self._turn = (self._turn + 1) % size if size else 0
        return best

    def _some_suspended(self, now: float) -> bool:
        return any(instance.suspended(now) for instance in self.instances)

    def _wake_all(self) -> None:
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _no_instance(self, wait_sec: float) -> SlessError:
        route = self.route
        what = "was free" if self.instances else "became ready"
        return SlessError(
            Code.NO_INSTANCES, f'no instance of {route.kind} "{route.name}" {what} within {wait_sec:g} s', retry_after_sec=RETRY_AFTER_SEC
        )
