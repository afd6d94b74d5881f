"""Reads the request body for an instance. While the call waits for a slot, reads ahead to notice a caller who leaves."""

import asyncio
from collections.abc import Callable

from sless.proxy.request import CallerGone, CallerStream

_AHEAD_BYTES = 256 * 1024


class RequestBody:
    """`read` and `until_caller_leaves` must not run at the same time. `more`: the body has not been read to its end."""

    def __init__(self, caller: CallerStream, *, has_body: bool) -> None:
        self.more = has_body
        self._caller = caller
        self._ahead: list[bytes] = []
        self._on_gone: Callable[[], None] = _ignore

    async def prefetch(self) -> None:
        """Reads the first part. Raises as `read` does."""
        if self.more:
            await self._fetch()

    async def read(self) -> bytes:
        """What has been read ahead, else the next part. Raises CallerGone, and SlessError if none arrives in time."""
        if not self._ahead and self.more:
            await self._fetch()
        data, self._ahead = b"".join(self._ahead), []
        return data

    def watch(self, gone: Callable[[], None]) -> None:
        """Calls `gone` when the caller leaves; replaces the function of an earlier `watch`. Use it only when there is no `more`."""
        self._on_gone = gone
        self._caller.watch(self._caller_gone)

    async def until_caller_leaves(self) -> None:
        """Raises CallerGone when the caller leaves, and as `read` does. Does not notice a caller who leaves after 256 KB of a longer body:
        back-pressure stops the reading."""
        while self.more and sum(map(len, self._ahead)) < _AHEAD_BYTES:
            await self._fetch()
        left = asyncio.get_running_loop().create_future()
        if not self.more:
            self.watch(lambda: None if left.done() else left.set_result(None))
        await left
        raise CallerGone

    async def _fetch(self) -> None:
        data, self.more = await self._caller.read()
        self._ahead.append(data)

    def _caller_gone(self) -> None:
        self._on_gone()


def _ignore() -> None: ...
