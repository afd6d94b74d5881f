"""Log lines of instances, fetched every 200 ms while an instance has calls, when a user reads them, and when it starts draining."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from sless.domain.log_line import log_line_of
from sless.domain.model import LogLine
from sless.domain.output_rates import OutputRates
from sless.domain.slots import Slots
from sless.proxy.exchange import BrokenOff, OverTime
from sless.proxy.fetch import control
from sless.proxy.live_endpoint import LiveEndpoint
from sless.proxy.sweep import Sweep

_log = logging.getLogger(__name__)
_TICK_SEC = 0.2
_LINGER_SEC = 3.0
"""How long an instance is still polled after its last call, since threads that a call left behind may print."""
_REST_SEC = 30.0
FRESH_SEC = 0.4
"""Maximum age of the lines for a reader."""
_MOST_AT_ONCE = 32
_MAX_PAGE_BYTES = 32 * 2**20
"""An instance keeps 4 MB of text, which JSON may make six times as long."""
_FULL_PAGE = 1000
_PULL_SEC = 10.0
"""Time limit for all pages of one instance, however slowly it sends them."""

TakeLines = Callable[[Iterable[LogLine]], None]


@dataclass(slots=True)
class _LogSource:
    instance: LiveEndpoint
    seq: int = 0
    seen_calls: int = 0
    active_at: float = 0.0
    rest_until: float = 0.0
    pending: bool = False
    """A request is pending."""


class LogPuller:
    """`instances` lists those in the table. An instance keeps 4 MB of lines, so a longer pause loses some. Instances run code of tenants:
    each gets a bounded time, a tenant whose instances send slowly leaves slots to others (`domain.slots`), and of one that prints more than
    `domain.output_rates` allows, lines are lost. `namespace_of` finds the tenant of a workload."""

    def __init__(
        self, instances: Callable[[], list[LiveEndpoint]], take: TakeLines, sweep: Sweep, *, namespace_of: Callable[[str], str]
    ) -> None:
        self._instances = instances
        self._namespace_of = namespace_of
        self._take = take
        self._sweep = sweep
        self._sources: dict[str, _LogSource] = {}
        self._task: asyncio.Task[None] | None = None
        self._pulls: set[asyncio.Task[None]] = set()
        self._slots = Slots(free=_MOST_AT_ONCE)
        self._rates = OutputRates()
        self._freed = asyncio.Condition()
        self._freshened: dict[str, tuple[float, asyncio.Task[None]]] = {}
        """By workload: when the last polling for a reader began, and its task."""
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="log-pages")

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="log puller")

    async def stop(self) -> None:
        """Polls every instance that had calls once more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._pull_due(monotonic())
        await asyncio.gather(*self._pulls, return_exceptions=True)
        self._threads.shutdown(wait=False)

    def draining(self, instance: LiveEndpoint) -> None:
        """Fetches the lines of an instance that gets no more calls, now and when its last call has ended."""
        source = self._sources.pop(instance.endpoint.id, None) or _LogSource(instance)
        self._begin(self._pull_to_the_end(source))

    async def freshen(self, workload_id: str, max_age_sec: float = FRESH_SEC) -> None:
        """Polls the instances of a workload, also without calls: programs may print at any time. Readers within `max_age_sec` wait for the
        same polling."""
        now = monotonic()
        last = self._freshened.get(workload_id)
        if last is None or now - last[0] >= max_age_sec:
            last = now, self._begin(self._pull_all(workload_id, now))
            recent = {known: item for known, item in self._freshened.items() if now - item[0] < FRESH_SEC or not item[1].done()}
            self._freshened = recent | {workload_id: last}
        await asyncio.shield(last[1])

    async def _pull_all(self, workload_id: str, now: float) -> None:
        instances = [instance for instance in self._instances() if instance.endpoint.workload_id == workload_id]
        sources = [self._sources.setdefault(instance.endpoint.id, _LogSource(instance)) for instance in instances]
        await asyncio.gather(*(self._pull(source) for source in sources if now >= source.rest_until))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SEC)
            self._pull_due(monotonic())

    def _pull_due(self, now: float) -> None:
        for source in self._due(now):
            self._begin(self._pull(source))

    def _begin(self, pull: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(pull)
        self._pulls.add(task)
        task.add_done_callback(self._pulls.discard)
        return task

    def _due(self, now: float) -> list[_LogSource]:
        due = []
        for instance in self._instances():
            source = self._sources.get(instance.endpoint.id)
            if source is None:
                if not instance.calls:
                    continue
                source = self._sources[instance.endpoint.id] = _LogSource(instance)
            if instance.active or instance.calls != source.seen_calls:
                source.seen_calls = instance.calls
                source.active_at = now
            if now - source.active_at < _LINGER_SEC and now >= source.rest_until and not source.pending and not self._rests(source):
                due.append(source)
        return due

    async def _pull_to_the_end(self, source: _LogSource) -> None:
        while True:
            await self._pull(source)
            if not source.instance.active or source.rest_until:
                return
            await asyncio.sleep(_TICK_SEC)

    async def _pull(self, source: _LogSource) -> None:
        source.pending = True
        try:
            async with self._slot(source), asyncio.timeout(_PULL_SEC):
                while not self._rests(source) and await self._take_page(source):
                    pass
        except (OSError, BrokenOff, OverTime, ValueError) as error:
            source.rest_until = monotonic() + _REST_SEC
            _log.debug("no log lines from %s for %g s: %s", source.instance.endpoint.id, _REST_SEC, error)
        finally:
            source.pending = False

    def _rests(self, source: _LogSource) -> bool:
        return self._rates.rest_sec(self._namespace_of(source.instance.endpoint.workload_id), monotonic()) > 0

    @asynccontextmanager
    async def _slot(self, source: _LogSource) -> AsyncIterator[None]:
        namespace = self._namespace_of(source.instance.endpoint.workload_id)
        async with self._freed:
            await self._freed.wait_for(lambda: self._slots.take(namespace))
        try:
            yield
        finally:
            self._slots.give_back(namespace)
            async with self._freed:
                self._freed.notify_all()

    async def _take_page(self, source: _LogSource) -> bool:
        """Returns whether there are more. Raises OSError (also TimeoutError), BrokenOff, OverTime, ValueError."""
        endpoint, after = source.instance.endpoint, source.seq
        page = await control(endpoint.address, f"/_sless/logs?after={after}", sweep=self._sweep, max_bytes=_MAX_PAGE_BYTES)
        namespace = self._namespace_of(endpoint.workload_id)
        self._rates.spend(namespace, len(page), monotonic())
        lines, last = await asyncio.get_running_loop().run_in_executor(
            self._threads, lines_of_page, page, endpoint.id, endpoint.workload_id, namespace
        )
        full = len(lines) >= _FULL_PAGE
        if lines and lines[0].seq <= after:
            raise ValueError(f"expected lines after {after}, found line {lines[0].seq}")
        self._take(lines)
        source.seq = max(source.seq, lines[-1].seq if full else last)
        return full


def lines_of_page(page: bytes, source_id: str, workload_id: str, namespace: str) -> tuple[list[LogLine], int]:
    """Raises ValueError unless the page is as runtimes/README.md describes it."""
    try:
        parsed = json.loads(page)
        lines = [log_line_of(line, source_id=source_id, workload_id=workload_id, namespace=namespace) for line in parsed["lines"]]
        return lines, int(parsed["last"])
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a page of log lines: {error!r}") from error
