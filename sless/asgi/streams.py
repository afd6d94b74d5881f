"""Streams the logs of a workload or a build, as plain text, or as server-sent events for `Accept: text/event-stream`."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from urllib.parse import parse_qsl

from sless.asgi.paths import FoundPath, PathKind
from sless.asgi.types import Receive, Scope, Send, VerifyToken
from sless.domain.ports import Follower, FollowPage, FollowRequest
from sless.errors import Code, SlessError
from sless.proxy.request import Headers

MOST_PER_NAMESPACE = 20
"""Maximum number of followed logs. All namespaces share the reader threads, so none may occupy them all."""
_RETRY_SEC = 5
_POLL_SEC = 0.5
_ALIVE_SEC = 15.0
_LINE_END = re.compile(r"\r\n?|\n")
"""Line ends of server-sent events; the text of a progress bar contains some within one log line."""
_NO_WEIGHT = re.compile(r"q\s*=\s*0(?:\.0{0,3})?")
_CURSOR = re.compile(r"[0-9]{1,18}")
"""Possible ids of rows. Any other Last-Event-ID is ignored."""


OpenFollower = Callable[[FollowRequest], Follower]
"""Raises SlessError when there is nothing to follow. Called in a thread."""


class Streams:
    """`stopping` ends all streams when the server stops."""

    def __init__(self, *, verify: VerifyToken, follow_logs: OpenFollower, follow_build: OpenFollower, stopping: asyncio.Event) -> None:
        self._verify = verify
        self._open = {PathKind.LOGS: follow_logs, PathKind.BUILD: follow_build}
        self._stopping = stopping
        self._followed = Counter[str]()
        # Separate threads, so that followers waiting for the database do not delay other work.
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="follow")

    async def __call__(self, scope: Scope, receive: Receive, send: Send, found: FoundPath) -> int:
        loop = asyncio.get_running_loop()
        headers: Headers = scope["headers"]
        authorization = _header(headers, b"authorization")
        caller = await self._verify(authorization)
        caller.check(found.namespace)
        with self._slot_of(found.namespace):
            follower = await loop.run_in_executor(self._threads, self._open[found.path_kind], _request_of(scope, found))
            gone = loop.create_task(_gone(receive))
            stop = loop.create_task(self._stopping.wait())
            try:
                await self._follow(send, follower, (gone, stop), events=wants_events(headers))
            finally:
                gone.cancel()
                stop.cancel()
        return 200

    @contextmanager
    def _slot_of(self, namespace: str) -> Iterator[None]:
        if self._followed[namespace] >= MOST_PER_NAMESPACE:
            text = f"a namespace may follow at most {MOST_PER_NAMESPACE} logs at a time, and all of them are open; close one first"
            raise SlessError(Code.TOO_MANY_REQUESTS, text, retry_after_sec=_RETRY_SEC)
        self._followed[namespace] += 1
        try:
            yield
        finally:
            self._followed[namespace] -= 1
            if not self._followed[namespace]:
                del self._followed[namespace]

    async def _follow(self, send: Send, follower: Follower, ends: tuple["asyncio.Task[object]", ...], *, events: bool) -> None:
        loop = asyncio.get_running_loop()
        page = await loop.run_in_executor(self._threads, follower.read)
        content_type = b"text/event-stream; charset=utf-8" if events else b"text/plain; charset=utf-8"
        headers = [(b"content-type", content_type), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sent_at = monotonic()
        while True:
            data = _event_text(page) if events else "".join(line + "\n" for line in page.lines)
            if not data and events and monotonic() - sent_at > _ALIVE_SEC:
                data = ": still here\n\n"
            if data:
                sent_at = monotonic()
                await send({"type": "http.response.body", "body": data.encode(), "more_body": True})
            if page.ended is not None:
                break
            # Pages are bounded, so more lines may be ready at once.
            done, _ = await asyncio.wait(ends, timeout=0 if page.lines else _POLL_SEC, return_when=asyncio.FIRST_COMPLETED)
            if done:
                break
            page = await loop.run_in_executor(self._threads, follower.read)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def close(self) -> None:
        self._threads.shutdown(wait=False)


def _event_text(page: FollowPage) -> str:
    lines = [_LINE_END.sub("\ndata: ", line) for line in page.lines]
    text = "".join(f"data: {line}\n\n" for line in lines[:-1])
    if lines:
        # Only the last line of a page has an id, so a caller that reconnects within a page gets it again instead of losing the rest.
        text += f"id: {page.after}\ndata: {lines[-1]}\n\n"
    if page.ended is not None:
        text += f"event: end\ndata: {json.dumps({'state': page.ended})}\n\n"
    return text


def _request_of(scope: Scope, found: FoundPath) -> FollowRequest:
    assert found.kind is not None
    last = _header(scope["headers"], b"last-event-id")
    return FollowRequest(
        namespace=found.namespace, kind=found.kind, name=found.name, version=found.version,
        query=dict(parse_qsl(scope["query_string"].decode("latin-1"))), after=int(last) if last and _CURSOR.fullmatch(last) else None,
    )  # fmt: skip


def wants_events(headers: Headers) -> bool:
    """Whether Accept names text/event-stream with a weight over 0, as RFC 9110 reads it; wildcards get plain text."""
    ranges = ",".join(value.decode("latin-1") for name, value in headers if name == b"accept").lower().split(",")
    for media_type, *parameters in ([part.strip() for part in item.split(";")] for item in ranges):
        if media_type == "text/event-stream":
            return not any(_NO_WEIGHT.fullmatch(parameter) for parameter in parameters)
    return False


def _header(headers: Headers, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
