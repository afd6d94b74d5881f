"""Limits concurrency of long work and shares it fairly between tenants (`domain.slots`). Waiting takes no thread."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sless.domain.slots import Slots
from sless.errors import Code, SlessError

WAITING_PER_OWNER = 20
WAIT_SEC = 60.0
RETRY_AFTER_SEC = 5


class Turns:
    """Used on the event loop only. `what` names the work in refusals."""

    def __init__(
        self, what: str, *, at_once: int, per_owner: int = 1, waiting_per_owner: int = WAITING_PER_OWNER, wait_sec: float = WAIT_SEC
    ) -> None:
        self._what = what
        self._slots = Slots(free=at_once)
        self._per_owner = per_owner
        self._most_waiting = waiting_per_owner
        self._wait_sec = wait_sec
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Waiters by owner, in which the owner whose last turn was longest ago comes first."""

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """Raises TOO_MANY_REQUESTS if too many tasks of the owner are waiting, or this one has waited too long."""
        if owner in self._waiting or not self._slots.take(owner, self._per_owner):
            await self._wait(owner)
        try:
            yield
        finally:
            self._give_back(owner)

    async def _wait(self, owner: str) -> None:
        queue = self._waiting.setdefault(owner, deque())
        if len(queue) >= self._most_waiting:
            raise self._refusal(owner, f"{len(queue)} are already waiting")
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(ticket)
        try:
            async with asyncio.timeout(self._wait_sec):
                await asyncio.shield(ticket)
        except (TimeoutError, asyncio.CancelledError) as error:
            if ticket.done():
                self._give_back(owner)
            else:
                self._leave(owner, ticket)
            if isinstance(error, TimeoutError):
                raise self._refusal(owner, f"no slot became free within {self._wait_sec:g} s") from None
            raise

    def _leave(self, owner: str, ticket: "asyncio.Future[None]") -> None:
        queue = self._waiting[owner]
        queue.remove(ticket)
        if not queue:
            del self._waiting[owner]

    def _give_back(self, owner: str) -> None:
        self._slots.give_back(owner)
        for candidate in list(self._waiting):
            if self._slots.take(candidate, self._per_owner):
                queue = self._waiting.pop(candidate)
                queue.popleft().set_result(None)
                if queue:
                    self._waiting[candidate] = queue

    def _refusal(self, owner: str, found: str) -> SlessError:
        text = f"too many {self._what} at once for {owner}: {found}"
        return SlessError(Code.TOO_MANY_REQUESTS, text, retry_after_sec=RETRY_AFTER_SEC)
