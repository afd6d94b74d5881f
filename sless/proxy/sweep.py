"""The clock of all running calls: enforces time-outs and starts to watch for callers who leave, without a timer per call."""

import asyncio
from time import monotonic
from typing import Protocol

from sless.proxy.exchange import OverTime
from sless.proxy.request import CallerGone

_TICK_SEC = 0.05
_WATCH_AFTER_SEC = 0.1


class Swept(Protocol):
    deadline: float

    def fail(self, error: Exception) -> None: ...


class Watched(Protocol):
    def watch(self) -> None:
        """Called once the call takes a while: start watching for a caller who leaves."""


class Sweep:
    """Each call costs one `add` and one `discard`. Calls `watch` once for each call older than 100 ms."""

    def __init__(self) -> None:
        self._calls: dict[Swept, tuple[float, Watched | None]] = {}
        self._first_added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="sweep")

    async def stop(self) -> None:
        """Aborts calls that still run."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for call in list(self._calls):
            call.fail(CallerGone())

    def add(self, call: Swept, watched: Watched | None) -> None:
        if not self._calls:
            self._first_added.set()
        self._calls[call] = (monotonic() + _WATCH_AFTER_SEC, watched)

    def discard(self, call: Swept) -> None:
        self._calls.pop(call, None)

    def tick(self, now: float) -> None:
        for call, (watch_at, watched) in list(self._calls.items()):
            if now > call.deadline:
                call.fail(OverTime())
            elif watched is not None and now > watch_at:
                self._calls[call] = (watch_at, None)
                watched.watch()

    async def _run(self) -> None:
        while True:
            if not self._calls:  # an idle server does not wake up
                self._first_added.clear()
                await self._first_added.wait()
            await asyncio.sleep(_TICK_SEC)
            self.tick(monotonic())
