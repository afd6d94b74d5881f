"""Lets a coroutine read the answer to one call as it arrives."""

import asyncio
from time import monotonic

from sless.proxy.connection import UpstreamConnection
from sless.proxy.known_answer import KnownAnswer
from sless.proxy.request import CallerGone, Headers

_HIGH_WATER_BYTES = 256 * 1024
NEVER = float("inf")
_CLOCKS_APART_SEC = 0.05
"""An instance starts its time-out, and restarts it with each chunk, slightly earlier or later than the proxy."""


class BrokenOff(Exception):
    """The instance closed the connection or did not send HTTP. `args[0]` says which, as the end of a sentence."""


class OverTime(Exception):
    """The instance sent nothing in time."""


def broken_at(deadline: float, reason: str) -> BrokenOff | OverTime:
    """The error for a connection that closes now. The runtime also aborts calls at their deadline; if it does so first, that is a time-out
    as well."""
    return OverTime() if monotonic() >= deadline - _CLOCKS_APART_SEC else BrokenOff(reason)


class Exchange:
    """Receives from one connection. `deadline` is monotonic; the sweep calls `fail` when it has passed.

    Back-pressure: while more than 256 KB are waiting to be taken, the connection is not read.
    """

    __slots__ = ("_chunks", "_connection", "_paused", "_size", "_timeout_sec", "_waiter", "_writable", "broken", "deadline", "ended",
                 "headers", "status")  # fmt: skip

    def __init__(self, connection: UpstreamConnection, timeout_sec: float) -> None:
        self._connection = connection
        self._timeout_sec = timeout_sec or NEVER
        self._chunks: list[bytes] = []
        self._size = 0
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self.deadline = monotonic() + self._timeout_sec
        self.status = 0
        self.headers: Headers = []
        self.ended = False
        self.broken: Exception | None = None

    async def head(self) -> None:
        """Returns when `status` and `headers` are set. Raises BrokenOff, OverTime, CallerGone or whatever `fail` was given."""
        while not self.status:
            await self._news()

    async def read(self) -> bytes:
        """The next bytes of the body; b"" at its end. Raises as `head` does."""
        while not self._chunks:
            if self.ended:
                return b""
            await self._news()
        return self.take()

    def take(self) -> bytes:
        """The bytes that have arrived, possibly none."""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks = []
        self._size = 0
        if self._paused:
            self._paused = False
            self._connection.resume_reading()
        return data

    @property
    def waiting(self) -> bool:
        """Whether there are bytes to take."""
        return bool(self._chunks)

    async def writable(self) -> None:
        """Returns when the instance can take more of the request body."""
        if self._connection.write_paused and self.broken is None and not self.ended:
            self._writable = asyncio.get_running_loop().create_future()
            await self._writable

    def touch(self) -> None:
        """Restarts the time-out."""
        self.deadline = monotonic() + self._timeout_sec

    def fail(self, error: Exception) -> None:
        if self.broken is None and not self.ended:
            self.broken = error
            self._wake()
            self.request_writable()

    def caller_gone(self) -> None:
        self.fail(CallerGone())

    async def _news(self) -> None:
        if self.broken is not None:
            raise self.broken
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
        self._check()

    def _check(self) -> None:
        """Raises the failure, unless bytes are left to take."""
        if self.broken is not None and not self._chunks:
            raise self.broken

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- connection.Receiver ---

    def answer_head(self, status: int, headers: Headers) -> None:
        self.status = status
        self.headers = headers
        self.touch()
        self._wake()

    def answer_data(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _HIGH_WATER_BYTES and not self._paused:
            self._paused = True
            self._connection.pause_reading()
        self.touch()
        self._wake()

    def answer_pause(self) -> None: ...

    def answer_end(self) -> None:
        self.ended = True
        self._wake()
        self.request_writable()

    def answer_whole(self, known: KnownAnswer, body: bytes) -> None:
        self.answer_head(known.status, known.headers)
        if body:
            self.answer_data(body)
        self.answer_end()

    def answer_broken(self, reason: str) -> None:
        self.fail(broken_at(self.deadline, reason))

    def request_writable(self) -> None:
        waiter, self._writable = self._writable, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
