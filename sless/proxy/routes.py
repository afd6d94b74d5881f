"""The table of routes, built from the last snapshot; polls each second, and immediately when woken."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping

from sless.config import Settings
from sless.domain.limits import TenantLimits, defaults_of
from sless.domain.ports import RouteSnapshot, RouteSource
from sless.errors import Code, SlessError
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.live_route import LiveRoute
from sless.proxy.tenants import LiveTenant, instance_memory_of
from sless.proxy.wait_queue import WaitQueue

_log = logging.getLogger(__name__)
_FIRST_SEC = 5.0
_STARVED_SEC = 0.25
_REST_SEC = 0.005
"""Minimum time between two polls, so that concurrent wakes share one."""


class RouteTable:
    """Read and changed on the event loop; only the source is read in a thread. If the source fails, the old table stays."""

    def __init__(
        self, source: RouteSource, *, draining: Callable[[LiveEndpoint], None], queue: WaitQueue | None = None, poll_sec: float = 1.0,
        limits: Mapping[str, int] | None = None, waits: Callable[[LiveRoute], None] = lambda live: None,
    ) -> None:  # fmt: skip
        """`limits` are the defaults of tenants."""
        self._source = source
        self._draining = draining
        self._queue = queue or WaitQueue()
        self._waits = waits
        self._poll_sec = poll_sec
        self._limits = defaults_of(Settings()) if limits is None else limits
        self._tenants: dict[str, LiveTenant] = {}
        self._revision = -1
        self._live_routes: dict[tuple[str, str], LiveRoute] = {}
        self._by_id: dict[str, LiveRoute] = {}
        self._by_prefix: dict[bytes, LiveRoute] = {}
        self._standing: list[LiveRoute] = []
        self._wake = threading.Event()
        self._turn = threading.Condition()
        self._begun = 0
        self._taken = 0
        """Numbers of the newest poll started, and of the newest one applied to the table."""
        self._awaited: dict[asyncio.Future[None], int] = {}
        """Calls on the loop that wait for a poll with this number or a higher one."""
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.revision = -1
        """Revision of the snapshot in the table."""
        self.loaded = False
        """Whether the first snapshot has been applied."""
        self._first = asyncio.Event()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._stopping = False
        self._thread = threading.Thread(target=self._poll, args=(loop,), name="routes", daemon=True)
        self._thread.start()
        # Wait, so that the first call does not find an empty table. If the database is slow, early calls get NOT_READY (`find_loaded`).
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SEC):
                await self._first.wait()

    async def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        for live in self._live_routes.values():
            live.remove(lambda instance: None)
        self._live_routes = {}
        self._by_id = {}
        self._by_prefix = {}
        self._standing = []

    def wake(self) -> None:
        """Polls immediately. May be called from any thread."""
        self._wake.set()

    def sync(self, timeout_sec: float) -> bool:
        """Waits until the table includes all writes so far, so that a user can call a function right after creating its trigger. False if
        that takes too long. Called from any thread but the loop's."""
        with self._turn:
            wanted = self._begun + 1
            self._wake.set()
            return self._turn.wait_for(lambda: self._taken >= wanted or self._stopping, timeout_sec)

    async def synced(self, timeout_sec: float) -> bool:
        """Like `sync`, on the event loop: needs no threads, however many calls wait."""
        awaited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._turn:
            self._awaited[awaited] = self._begun + 1
        self._wake.set()
        try:
            done, _ = await asyncio.wait((awaited,), timeout=timeout_sec)
        finally:
            del self._awaited[awaited]
        return bool(done)

    def find(self, namespace: str, name: str) -> LiveRoute | None:
        return self._live_routes.get((namespace, name))

    def find_loaded(self, namespace: str, name: str) -> LiveRoute | None:
        """Raises NOT_READY before the first snapshot."""
        if not self.loaded:
            raise SlessError(Code.NOT_READY, "the server has just started and has not read its routes yet", retry_after_sec=1)
        return self.find(namespace, name)

    def find_by_prefix(self, prefix: bytes) -> LiveRoute | None:
        """`prefix` is the raw /fn/{namespace}/{name}."""
        return self._by_prefix.get(prefix)

    def find_by_id(self, workload_id: str) -> LiveRoute | None:
        return self._by_id.get(workload_id)

    def live_routes(self) -> list[LiveRoute]:
        return list(self._live_routes.values())

    def standing(self) -> list[LiveRoute]:
        """Routes with instances. Callers read this several times a second, so idle workloads must not cost anything."""
        return self._standing

    def instances(self) -> list[LiveEndpoint]:
        return [instance for live in self._standing for instance in live.instances]

    def apply(self, snapshot: RouteSnapshot) -> None:
        """Applies a snapshot. A LiveRoute lives as long as its workload: slots, connections and token buckets survive."""
        fresh: dict[tuple[str, str], LiveRoute] = {}
        by_id: dict[str, LiveRoute] = {}
        self._take_tenants(snapshot)
        for route in snapshot.routes:
            live = self._by_id.get(route.workload_id) or LiveRoute(route, self._queue, self._tenants[route.namespace], self._waits)
            live.update(route, self._draining)
            fresh[route.namespace, route.name] = by_id[route.workload_id] = live
        gone = [live for workload_id, live in self._by_id.items() if workload_id not in by_id]
        self._live_routes, self._by_id = fresh, by_id
        self._by_prefix = {f"/fn/{namespace}/{name}".encode(): live for (namespace, name), live in fresh.items()}
        for live in gone:
            live.remove(self._draining)
        self._standing = [live for live in fresh.values() if live.instances]
        self.revision = snapshot.revision
        self.loaded = True
        self._first.set()

    def limits_of(self, namespace: str) -> TenantLimits | None:
        """Limits of a tenant; None for a namespace without routes."""
        tenant = self._tenants.get(namespace)
        return tenant.limits if tenant else None

    def instances_mb(self, namespace: str) -> int:
        """Memory of the instances of a tenant that take calls. May be called from any thread."""
        tenant = self._tenants.get(namespace)
        return tenant.instances_mb if tenant else 0

    def calls(self) -> dict[str, int]:
        """Number of calls of each tenant since it has had routes. May be called from any thread."""
        return {namespace: tenant.calls for namespace, tenant in self._tenants.items()}

    def charge(self, calls: Mapping[str, int]) -> None:
        """Counts calls that other replicas have admitted, by namespace."""
        for namespace, number in calls.items():
            if namespace in self._tenants:
                self._tenants[namespace].charge(number)

    def _take_tenants(self, snapshot: RouteSnapshot) -> None:
        fresh: dict[str, LiveTenant] = {}
        for namespace in {route.namespace for route in snapshot.routes}:
            own = snapshot.limits.get(namespace, {})
            tenant = fresh[namespace] = self._tenants.get(namespace) or LiveTenant(self._limits, own)
            tenant.update(self._limits, own)
        memory = instance_memory_of(snapshot.routes)
        for namespace, tenant in fresh.items():
            tenant.instances_mb = memory[namespace]
        self._tenants = fresh

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping:
            self._wake.clear()
            with self._turn:
                self._begun += 1
            try:
                snapshot = self._source.find_snapshot(self._revision)
            except Exception:
                _log.exception("cannot read the routes; keeping those of revision %d", self._revision)
            else:
                self._revision = snapshot.revision if snapshot is not None else self._revision
                loop.call_soon_threadsafe(self._take, snapshot, self._begun)
            self._wake.wait(self._pause_sec())
            time.sleep(_REST_SEC)

    def _pause_sec(self) -> float:
        """Shorter while calls wait for a first instance, since another replica may be the leader that starts it."""
        starved = any(live.waiting and not live.instances for live in list(self._live_routes.values()))
        return min(self._poll_sec, _STARVED_SEC) if starved else self._poll_sec

    def _take(self, snapshot: RouteSnapshot | None, number: int) -> None:
        if snapshot is not None and not self._stopping:
            self.apply(snapshot)
        with self._turn:
            self._taken = number
            self._turn.notify_all()
        for awaited, wanted in self._awaited.items():
            if wanted <= number and not awaited.done():
                awaited.set_result(None)
