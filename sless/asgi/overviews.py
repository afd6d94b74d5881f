"""A namespace's list as a stream of changes, for open consoles.

One reader serves all streams: it reads each followed namespace once for all of its followers, then pauses for ten times the processor time
that the read took. A namespace whose streams were sent much is read less often. So open consoles take at most a tenth of one thread and a
small part of the event loop, however many there are; with very many of them, changes arrive later.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sless.asgi.paths import FoundPath
from sless.asgi.types import Receive, Scope, Send, VerifyToken
from sless.errors import Code, SlessError

_log = logging.getLogger(__name__)

MOST_FOLLOWERS = 2000
PERIOD_SEC = 1.0
"""Minimum time between two reads of a namespace."""
REST_SHARE = 10
"""Multiplies the processor time of a read to get the pause after it. Elapsed time would also count other work of a busy machine."""
SENT_BYTES_PER_SEC = 4 * 2**20
"""Bytes sent to all streams of a namespace: with 200 consoles and 200 busy functions, each read results in 30 MB."""
CHECK_SEC = 15.0
"""How often a stream checks its token again, since it may have been revoked."""
_QUEUED = 20
"""Changes queued for a slow client. Beyond that its stream ends, and it reads the list again."""

Check = Callable[[], Awaitable[float]]
"""Returns the seconds until the token expires. Raises SlessError if it is no longer valid."""
ReadOverview = Callable[[str], dict[str, str]]
"""The items of a namespace as JSON text, by kind and name. Called in a thread. Raises SlessError."""


class _Follower:
    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue(_QUEUED)
        self.dropped = asyncio.Event()

    def put(self, data: bytes) -> None:
        try:
            self.queue.put_nowait(data)
        except asyncio.QueueFull:
            self.dropped.set()


class _Watched:
    """A namespace with followers. `items` is None until the first read. `sent_bytes`: to all of them, after the last read."""

    def __init__(self) -> None:
        self.items: dict[str, str] | None = None
        self.followers: set[_Follower] = set()
        self.read_at = 0.0
        self.sent_bytes = 0


class Overviews:
    """Used on the event loop only. `stopping` ends all streams."""

    def __init__(self, *, verify: VerifyToken, read: ReadOverview, stopping: asyncio.Event) -> None:
        self._verify = verify
        self._read = read
        self._stopping = stopping
        self._watched: dict[str, _Watched] = {}
        self._count = 0
        self._reader: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="overview")

    async def __call__(self, scope: Scope, receive: Receive, send: Send, found: FoundPath) -> int:
        """Returns the status that was sent."""
        authorization = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"), None)

        async def check() -> float:
            caller = await self._verify(authorization)
            caller.check(found.namespace)
            return caller.expires_at - time.time()

        await check()
        if self._count >= MOST_FOLLOWERS:
            raise SlessError(Code.TOO_MANY_REQUESTS, "too many lists are followed at once; try again later", retry_after_sec=30)
        follower = self._join(found.namespace)
        try:
            await _stream(receive, send, follower, check, self._stopping)
        finally:
            self._leave(found.namespace, follower)
        return 200

    def _join(self, namespace: str) -> _Follower:
        follower = _Follower()
        watched = self._watched.setdefault(namespace, _Watched())
        if watched.items is not None:
            follower.put(_changes({}, watched.items))
        watched.followers.add(follower)
        self._count += 1
        if self._reader is None or self._reader.done():
            self._reader = asyncio.get_running_loop().create_task(self._serve())
        return follower

    def _leave(self, namespace: str, follower: _Follower) -> None:
        watched = self._watched[namespace]
        watched.followers.discard(follower)
        self._count -= 1
        if not watched.followers:
            del self._watched[namespace]

    async def _serve(self) -> None:
        """Ends when there are no more followers."""
        while self._watched and not self._stopping.is_set():
            namespace, watched = min(self._watched.items(), key=lambda item: item[1].read_at)
            wait_sec = watched.read_at + PERIOD_SEC - time.monotonic()
            if wait_sec > 0:
                await asyncio.sleep(min(wait_sec, 0.1))  # a new namespace must not wait for the others
                continue
            watched.read_at = time.monotonic()
            processor_sec = await self._update(namespace, watched)
            read_sec = time.monotonic() - watched.read_at
            watched.read_at += watched.sent_bytes / SENT_BYTES_PER_SEC  # only this namespace waits for what it has sent
            await asyncio.sleep(max(processor_sec * REST_SHARE, read_sec))  # a slow database gets a pause, too

    async def _update(self, namespace: str, watched: _Watched) -> float:
        """Returns the processor time of the read in seconds. After a failed read, followers keep what they have."""
        watched.sent_bytes = 0
        try:
            items, processor_sec = await asyncio.get_running_loop().run_in_executor(self._threads, self._timed_read, namespace)
        except SlessError as error:
            _log.warning("cannot read the list of %s for open consoles: %s", namespace, error.message)
            return 0.0
        except Exception:
            _log.exception("cannot read the list of %s for open consoles", namespace)
            return 0.0
        if watched.items is None or items != watched.items:
            data = _changes(watched.items or {}, items)
            for follower in watched.followers:
                follower.put(data)
            watched.sent_bytes = len(data) * len(watched.followers)
        watched.items = items
        return processor_sec

    def _timed_read(self, namespace: str) -> tuple[dict[str, str], float]:
        started = time.thread_time()
        items = self._read(namespace)
        return items, time.thread_time() - started

    def close(self) -> None:
        self._threads.shutdown(wait=False)


def _changes(before: dict[str, str], now: dict[str, str]) -> bytes:
    """Events for new, changed and removed items. Includes an empty list, so that the client knows that it is complete."""
    changed = [text for key, text in now.items() if before.get(key) != text]
    gone = [key for key in before if key not in now]
    event = f"event: items\ndata: [{','.join(changed)}]\n\n"
    return (event + (f"event: gone\ndata: {json.dumps(gone)}\n\n" if gone else "")).encode()


async def _stream(receive: Receive, send: Send, follower: _Follower, check: Check, stopping: asyncio.Event) -> None:
    """Ends when the client leaves or is too slow, its token is no longer valid for the namespace, or the server stops."""
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    loop = asyncio.get_running_loop()
    ends = {loop.create_task(_gone(receive)), loop.create_task(stopping.wait()), loop.create_task(follower.dropped.wait())}
    try:
        while (left_sec := await check()) > 0:
            if not await _until_checked(send, follower, ends, loop.time() + min(CHECK_SEC, left_sec)):
                break
    except SlessError:
        pass  # the client reconnects and gets the reason in the refusal
    finally:
        for task in ends:
            task.cancel()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_checked(send: Send, follower: _Follower, ends: "set[asyncio.Task[Any]]", until: float) -> bool:
    """Sends changes until this time of the loop, then a comment, which detects a dead connection. False if the stream has to end."""
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        news = loop.create_task(follower.queue.get())
        done, _ = await asyncio.wait({news, *ends}, timeout=until - loop.time(), return_when=asyncio.FIRST_COMPLETED)
        if news in done:
            await send({"type": "http.response.body", "body": news.result(), "more_body": True})
        else:
            news.cancel()
        if done & ends:
            return False
    await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})
    return True


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
