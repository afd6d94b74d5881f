"""A call from route to record: what /fn and …/invoke share."""

import asyncio
import logging
from dataclasses import dataclass

from sless.domain.model import CallStatus, Cause, Kind
from sless.domain.ports import ObservedRun
from sless.errors import Code, NotFound, SlessError
from sless.ids import new_call_id
from sless.proxy.accepting import Acceptor, Terms, accepted_answer, accepted_of, wants_async
from sless.proxy.entry import Entry
from sless.proxy.failure import body_too_large
from sless.proxy.forward import Forwarder, Forwarding
from sless.proxy.large_event import EventReader
from sless.proxy.oneshot import OneShotRunner, outcome_answer, run_failure, run_spec
from sless.proxy.policy import TokenCheck
from sless.proxy.recorder import Recorder
from sless.proxy.refuse import refuse
from sless.proxy.request import Call, Caller, CallerGone, Headers, Request
from sless.proxy.routes import RouteTable

_log = logging.getLogger(__name__)
_SYNC_SEC = 1.0


@dataclass(slots=True, kw_only=True)
class Asked:
    """A call as it was asked for. `kind` None: by /fn; else by …/{kind}s/{name}/invoke, where the caller's token has been checked."""

    namespace: str
    name: str
    kind: Kind | None
    request: Request
    caller: Caller
    token_check: TokenCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeParts:
    table: RouteTable
    forwarder: Forwarder
    recorder: Recorder
    oneshot: OneShotRunner
    acceptor: Acceptor
    terms: Terms
    events: EventReader


class Invocations:
    def __init__(self, parts: InvokeParts) -> None:
        self._parts = parts

    async def invoke(self, asked: Asked) -> int:
        """Answers the call, whatever happens to it; returns the status that was sent (499: the caller left first)."""
        try:
            entry = self._entry(asked)
            extra = cors_headers(entry, asked)
            if extra is not None and is_preflight(entry, asked):
                return await self._preflight(entry, asked)
            if asked.kind is None:
                await check_trigger(entry, asked)
        except SlessError as error:
            await refuse(asked.caller, error, asked.request.request_id or new_call_id(), extra_of(asked, self._parts.table))
            return error.status
        return await self._recorded(entry, asked, extra or [])

    def _entry(self, asked: Asked) -> Entry:
        entry = self._parts.table.find_loaded(asked.namespace, asked.name)
        if entry is None or (asked.kind is not None and entry.route.kind is not asked.kind):
            raise NotFound(str(asked.kind or "function"), asked.name)
        return entry

    async def _preflight(self, entry: Entry, asked: Asked) -> int:
        assert entry.policy is not None and entry.policy.cors is not None
        await asked.caller.start(204, entry.policy.cors.preflight(asked.request, entry.policy.http.methods))
        await asked.caller.write(b"", False)
        return 204

    async def _recorded(self, entry: Entry, asked: Asked, extra: Headers) -> int:
        cause = Cause.HTTP if asked.kind is None else Cause.INVOKE
        call = Call(entry.route, cause, asked.request)
        record = True
        try:
            if wants_async(asked.request):
                record = False
                return await self._accept(call, asked, extra)
            await self._serve(entry, call, asked, extra)
        except SlessError as error:
            call.http_status = error.status
            call.finish(CallStatus.TIMEOUT if error.code is Code.TIMEOUT else CallStatus.FAILED, error.message)
            call.response_bytes = await refuse(asked.caller, error, call.request_id, extra)
        except CallerGone:
            call.http_status = None
            call.finish(CallStatus.CANCELLED, "the caller went away")
        finally:
            if record:
                call.finish(CallStatus.CANCELLED, "the server stopped")
                self._parts.recorder.add(call)
        return call.http_status or 499

    async def _serve(self, entry: Entry, call: Call, asked: Asked, extra: Headers) -> None:
        if entry.route.blocked is not None:
            # Perhaps no longer: who has just seen "Ready" may be ahead of the table.
            await self._parts.table.synced(_SYNC_SEC)
        if entry.route.wants_instances:
            job = Forwarding(entry=entry, call=call, request=asked.request, caller=asked.caller, extra_headers=extra)
            await self._parts.forwarder.forward(job)
        else:
            await self._run(entry, call, asked, extra)

    async def _run(self, entry: Entry, call: Call, asked: Asked, extra: Headers) -> None:
        entry.check_served()
        revision = entry.route.revision
        if revision is None:
            raise SlessError(Code.NOT_READY, f'{entry.route.kind} "{entry.route.name}" has no version that is ready', retry_after_sec=5)
        call.version, call.cold = revision.version, True
        event = await self._event(call, asked)
        run = asyncio.get_running_loop().create_task(self._parts.oneshot.run(run_spec(call, revision, event)))
        asked.caller.watch(lambda: _cancel(run))
        try:
            observed = await asyncio.shield(run)
        except asyncio.CancelledError:
            run.cancel()
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]  # within a task there is a current one
                raise
            raise CallerGone from None
        if observed.outcome is None:
            raise run_failure(observed, revision)
        answer = outcome_answer(observed.outcome, call.request_id)
        call.http_status = answer.status
        call.error = answer.error or (observed.outcome.error if observed.outcome.error_type else None)
        call.response_bytes = len(observed.outcome.body)
        await asked.caller.start(answer.status, answer.headers + extra)
        await asked.caller.write(b"" if asked.request.method == "HEAD" else observed.outcome.body, False)
        call.finish_answered()

    async def _accept(self, call: Call, asked: Asked, extra: Headers) -> int:
        """202: the call is durable when this answers."""
        options = self._parts.terms.options(asked.request)
        body = await self._body(call, asked, self._parts.terms.max_body_bytes, "max_json_bytes")
        await self._parts.acceptor.accept(accepted_of(call, asked.request, body, options, keep_request=asked.kind is None))
        headers, answer = accepted_answer(call)
        await asked.caller.start(202, headers + extra)
        await asked.caller.write(b"" if asked.request.method == "HEAD" else answer, False)
        return 202

    async def _event(self, call: Call, asked: Asked) -> str:
        request = asked.request
        body = await self._body(call, asked, self._parts.forwarder.options.max_body_bytes, "max_call_body_bytes")
        return await self._parts.events.event_of(request.text(b"content-type"), request.query.decode("latin-1"), body)

    async def _body(self, call: Call, asked: Asked, limit_bytes: int, limit_name: str) -> bytes:
        request = asked.request
        if not request.has_body:
            return b""
        if request.length > limit_bytes:
            raise body_too_large(limit_bytes, limit_name)
        pieces, more = [], True
        while more:
            data, more = await asked.caller.read()
            call.request_bytes += len(data)
            if call.request_bytes > limit_bytes:
                raise body_too_large(limit_bytes, limit_name)
            pieces.append(data)
        return b"".join(pieces)


def _cancel(task: "asyncio.Task[ObservedRun]") -> None:
    task.cancel()


async def check_trigger(entry: Entry, asked: Asked) -> None:
    """Raises unless the http trigger lets this call pass; a service has its URL without one."""
    route, policy = entry.route, entry.policy
    if policy is None:
        if route.kind is Kind.SERVICE:
            return
        raise SlessError(Code.NOT_FOUND, f'function "{route.name}" has no http trigger, so it has no URL; create one, or use …/invoke')
    if policy.open:
        return
    if not policy.http.enabled:
        raise SlessError(Code.DISABLED, f'the http trigger of {route.kind} "{route.name}" is disabled', retry_after_sec=60)
    await policy.check(asked.request, asked.token_check)


def is_preflight(entry: Entry, asked: Asked) -> bool:
    policy = entry.policy
    return policy is not None and policy.http.enabled and policy.cors is not None and policy.cors.is_preflight(asked.request)


def cors_headers(entry: Entry, asked: Asked) -> Headers | None:
    """Headers that the trigger's CORS rules add to each answer; None without such rules or for …/invoke."""
    if asked.kind is not None or entry.policy is None or entry.policy.cors is None:
        return None
    return entry.policy.cors.answer_headers(asked.request)


def extra_of(asked: Asked, table: RouteTable) -> Headers:
    """A browser may read an error only when it carries the CORS headers too."""
    entry = table.find(asked.namespace, asked.name)
    return (cors_headers(entry, asked) if entry else None) or []
