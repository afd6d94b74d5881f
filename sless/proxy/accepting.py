"""Asynchronous calls: `Prefer: respond-async` is answered with 202 once the call is durable.

A durable write costs one flush of the disk, however many calls it includes. So all calls that arrive during one write share the next one;
a busy server hardly writes more often than an idle one.
"""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sless import clock
from sless.domain.addresses import Allowed
from sless.domain.asynchronous import ATTEMPTS_HEADER, CALLBACK_HEADER, AsyncOptions, options_of
from sless.domain.event import event_of
from sless.domain.model import Run
from sless.domain.ports import AsyncQueue
from sless.domain.request import StoredRequest
from sless.domain.runs import AsyncRequest, RunTarget, async_run
from sless.errors import Code, SlessError
from sless.proxy.request import BodyLimit, CallRecord, Headers, Request

_BATCH = 200
_DATABASE_DOWN = frozenset({Code.UNAVAILABLE, Code.STORAGE_FULL})
_SLESS = b"x-sless-"
_PREFER = b"prefer"


class Acceptor:
    """Used on the event loop only."""

    def __init__(self, queue: AsyncQueue) -> None:
        self._queue = queue
        self.waiting: list[tuple[Run, asyncio.Future[None]]] = []
        """Calls that are not part of a write yet."""
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="accept")

    async def accept(self, run: Run) -> None:
        """Durable on return. Raises SlessError. The run is written even if the caller leaves."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((run, written))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())
        await written

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    async def _write(self) -> None:
        try:
            while self.waiting:
                batch, self.waiting = self.waiting[:_BATCH], self.waiting[_BATCH:]
                await self._write_batch(batch)
        finally:
            self._writer = None
            left, self.waiting = self.waiting, []
            for _, written in left:  # cancelled: the server is stopping
                written.cancel()

    async def _write_batch(self, batch: list[tuple[Run, "asyncio.Future[None]"]]) -> None:
        errors = await self._try([run for run, _ in batch])
        for (_, written), error in zip(batch, errors, strict=True):
            if written.done():
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

    async def _try(self, runs: list[Run]) -> Sequence[Exception | None]:
        """One entry per run. A single run may make its batch fail, so each is retried separately, unless the database is down."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._queue.accept_all, runs)
        except Exception as error:
            # Raised again in each `accept` that waits for it.
            failure = error
        if len(runs) == 1 or (isinstance(failure, SlessError) and failure.code in _DATABASE_DOWN):
            return [failure] * len(runs)
        return [(await self._try([run]))[0] for run in runs]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncSettings:
    """`allowed`: non-public ranges that callbacks may reach. `body_limit` applies to the requests, which are stored."""

    allowed: tuple[Allowed, ...]
    body_limit: BodyLimit

    def options(self, request: Request) -> AsyncOptions:
        """Raises Invalid."""
        attempts, callback = (_text_of(request, name) for name in (ATTEMPTS_HEADER, CALLBACK_HEADER))
        return options_of(attempts, callback, self.allowed)


def wants_async(request: Request) -> bool:
    return any(
        name == _PREFER and b"respond-async" in (part.strip().lower() for part in value.split(b",")) for name, value in request.headers
    )


def run_of(call: CallRecord, request: Request, body: bytes, options: AsyncOptions, *, keep_request: bool) -> Run:
    """`keep_request`: the call came over /fn, so its handler gets the request as sent. Raises SlessError INVALID_JSON."""
    route = call.route
    event = event_of(request.text(b"content-type"), request.query.decode("latin-1"), body)
    stored = _stored_of(request, body).text() if keep_request else None
    target = RunTarget(workload_id=route.workload_id, namespace=route.namespace, kind=route.kind, name=route.name)
    kept = AsyncRequest(id=call.id, request_id=call.request_id, trigger=call.trigger, event="" if stored else event, text=stored or "")
    return async_run(target, kept, options, clock.now())


def accepted_answer(call: CallRecord) -> tuple[Headers, bytes]:
    """Headers and body of the 202."""
    route = call.route
    location = f"/v1/namespaces/{route.namespace}/{route.kind}s/{route.name}/invocations/{call.id}"
    body = json.dumps({"id": call.id, "request_id": call.request_id, "status": "queued"}).encode()
    headers = [
        (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"location", location.encode()),
        (b"preference-applied", b"respond-async"), (b"x-request-id", call.request_id.encode("latin-1")),
    ]  # fmt: skip
    return headers, body


def _stored_of(request: Request, body: bytes) -> StoredRequest:
    # Headers addressed to sless are not passed to the function.
    headers = [pair for pair in request.headers if pair[0] != _PREFER and not pair[0].startswith(_SLESS)]
    return StoredRequest(
        method=request.method, target=request.target, full_path=request.full_path, query=request.query, headers=headers,
        client=request.client, scheme=request.scheme, body=body,
    )  # fmt: skip


def _text_of(request: Request, name: str) -> str | None:
    value = request.header(name.lower().encode())
    return None if value is None else value.decode("latin-1")
