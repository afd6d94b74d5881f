"""Serves a call from its route to its record, for /fn and …/invoke."""

import asyncio
import logging
from dataclasses import dataclass

from sless.domain.asynchronous import CALLBACK_HEADER
from sless.domain.model import CallStatus, CallTrigger, Kind
from sless.domain.ports import ObservedRun
from sless.errors import Code, Detail, NotFound, SlessError
from sless.ids import new_call_id
from sless.proxy.accepting import Acceptor, AsyncSettings, accepted_answer, run_of, wants_async
from sless.proxy.bodies import Bodies, HeldBody, group_of
from sless.proxy.forward import Forwarder, Forwarding
from sless.proxy.heads import client_of
from sless.proxy.isolation import check_isolated, isolated
from sless.proxy.large_event import EventReader
from sless.proxy.limits_reached import LimitsReached
from sless.proxy.live_route import LiveRoute
from sless.proxy.oneoff import OneOffRunner, outcome_answer, run_failure, run_spec
from sless.proxy.policy import TokenCheck
from sless.proxy.recorder import Recorder
from sless.proxy.refuse import refuse
from sless.proxy.request import BodyLimit, CallerGone, CallerStream, CallRecord, Headers, Request
from sless.proxy.routes import RouteTable

_log = logging.getLogger(__name__)
_SYNC_SEC = 1.0
_REFUSAL_PAUSE_SEC = 0.1


@dataclass(slots=True, kw_only=True)
class IncomingCall:
    """A call as it arrived: over /fn if `kind` is None, else over …/{kind}s/{name}/invoke, with the token checked."""

    namespace: str
    name: str
    kind: Kind | None
    request: Request
    caller: CallerStream
    token_check: TokenCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeParts:
    table: RouteTable
    forwarder: Forwarder
    recorder: Recorder
    oneoff: OneOffRunner
    acceptor: Acceptor
    async_settings: AsyncSettings
    events: EventReader
    bodies: Bodies
    limits_reached: LimitsReached


class Invocations:
    def __init__(self, parts: InvokeParts) -> None:
        self._parts = parts

    async def invoke(self, incoming: IncomingCall) -> int:
        """Always answers the call; returns the status that was sent (499: the caller left first)."""
        try:
            live = self._live(incoming)
            extra = cors_headers(live, incoming)
            if extra is not None and is_preflight(live, incoming):
                return await self._preflight(live, incoming)
            if incoming.kind is None:
                check_isolated(incoming.request)
                await check_trigger(live, incoming)
            await self._admit(live)
        except SlessError as error:
            self._parts.limits_reached.note(incoming.namespace, error)
            await refuse(incoming.caller, error, incoming.request.request_id or new_call_id(), extra_of(incoming, self._parts.table))
            return error.status
        return await self._recorded(live, incoming, extra or [])

    @staticmethod
    async def _admit(live: LiveRoute) -> None:
        """Raises TOO_MANY_REQUESTS over the tenant's limit, after a pause, since refusing a flood at full speed would slow down others."""
        if not live.tenant.admit():
            await asyncio.sleep(_REFUSAL_PAUSE_SEC)
            raise live.tenant.refusal()

    def _live(self, incoming: IncomingCall) -> LiveRoute:
        live = self._parts.table.find_loaded(incoming.namespace, incoming.name)
        if live is None or (incoming.kind is not None and live.route.kind is not incoming.kind):
            raise no_url(incoming.name) if incoming.kind is None else NotFound(str(incoming.kind), incoming.name)
        return live

    async def _preflight(self, live: LiveRoute, incoming: IncomingCall) -> int:
        assert live.policy is not None and live.policy.cors is not None
        headers = live.policy.cors.preflight(incoming.request, live.policy.http.methods)
        request_id = incoming.request.request_id or new_call_id()
        await incoming.caller.start(204, [*headers, (b"x-request-id", request_id.encode("latin-1"))])
        await incoming.caller.write(b"", False)
        return 204

    async def _recorded(self, live: LiveRoute, incoming: IncomingCall, extra: Headers) -> int:
        trigger = CallTrigger.HTTP if incoming.kind is None else CallTrigger.INVOKE
        call = CallRecord(live.route, trigger, incoming.request)
        record = True
        try:
            if wants_async(incoming.request):
                record = False
                return await self._accept(live, call, incoming, extra)
            await self._serve(live, call, incoming, extra)
        except SlessError as error:
            self._parts.limits_reached.note(incoming.namespace, error)
            call.http_status = error.status
            call.finish(CallStatus.TIMEOUT if error.code is Code.TIMEOUT else CallStatus.FAILED, error.message)
            call.response_bytes = await refuse(incoming.caller, error, call.request_id, extra)
        except CallerGone:
            call.http_status = None
            call.finish(CallStatus.CANCELLED, "the caller went away")
        finally:
            if record:
                call.finish(CallStatus.CANCELLED, "the server stopped")
                self._parts.recorder.add(call)
        return call.http_status or 499

    async def _serve(self, live: LiveRoute, call: CallRecord, incoming: IncomingCall, extra: Headers) -> None:
        if live.route.blocked is not None:
            # The table may be older than the phase Ready that the caller has just read.
            await self._parts.table.synced(_SYNC_SEC)
        if live.route.wants_instances:
            forwarding = Forwarding(live=live, call=call, request=incoming.request, caller=incoming.caller, extra_headers=extra)
            await self._parts.forwarder.forward(forwarding)
        else:
            await self._run(live, call, incoming, extra)

    async def _run(self, live: LiveRoute, call: CallRecord, incoming: IncomingCall, extra: Headers) -> None:
        live.check_served()
        revision = live.route.revision
        if revision is None:
            raise SlessError(Code.NOT_READY, f'{live.route.kind} "{live.route.name}" has no version that is ready', retry_after_sec=5)
        call.version, call.cold = revision.version, True
        with self._held(live, incoming) as held:
            await self._run_held(live, call, incoming, held, extra)

    def _held(self, live: LiveRoute, incoming: IncomingCall) -> HeldBody:
        """Accounts for a body that is read into memory as a whole."""
        client = client_of(incoming.request, self._parts.forwarder.options.trust)
        return self._parts.bodies.hold(group_of(client), live.route.namespace)

    async def _run_held(self, live: LiveRoute, call: CallRecord, incoming: IncomingCall, held: HeldBody, extra: Headers) -> None:
        revision = live.route.revision
        assert revision is not None
        event = await self._event(live, call, incoming, held)
        run = asyncio.get_running_loop().create_task(self._parts.oneoff.run(run_spec(call, revision, event)))
        incoming.caller.watch(lambda: _cancel(run))
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
        error = answer.error or (observed.outcome.error if observed.outcome.error_type else None)
        call.note_answer(answer.status, error, answer.fault)
        call.response_bytes = len(observed.outcome.body)
        headers = answer.headers
        if not incoming.request.on_own_host:
            headers = isolated(headers, sandbox=self._parts.forwarder.options.sandbox)
        await incoming.caller.start(answer.status, headers + extra)
        await incoming.caller.write(b"" if incoming.request.method == "HEAD" else observed.outcome.body, False)
        call.finish_answered()

    async def _accept(self, live: LiveRoute, call: CallRecord, incoming: IncomingCall, extra: Headers) -> int:
        """Answers 202 once the call is durable. Also accepts calls of a workload that cannot be called yet, unless it is suspended."""
        if live.route.blocked is not None and live.route.blocked[0] is Code.SUSPENDED:
            live.check_served()
        options = self._parts.async_settings.options(incoming.request)
        if options.callback_url is not None:
            check_callback(live, incoming)
        with self._held(live, incoming) as held:
            body = await self._body(call, incoming, self._parts.async_settings.body_limit, held)
            await self._parts.acceptor.accept(run_of(call, incoming.request, body, options, keep_request=incoming.kind is None))
        headers, answer = accepted_answer(call)
        await incoming.caller.start(202, headers + extra)
        await incoming.caller.write(b"" if incoming.request.method == "HEAD" else answer, False)
        return 202

    async def _event(self, live: LiveRoute, call: CallRecord, incoming: IncomingCall, held: HeldBody) -> str:
        request = incoming.request
        body = await self._body(call, incoming, live.tenant.body_limit, held)
        return await self._parts.events.event_of(live.route.namespace, request.text(b"content-type"), request.query.decode("latin-1"), body)

    async def _body(self, call: CallRecord, incoming: IncomingCall, limit: BodyLimit, held: HeldBody) -> bytes:
        request = incoming.request
        if not request.has_body:
            return b""
        limit.check(request.length)
        pieces, more = [], True
        while more:
            data, more = await incoming.caller.read()
            call.request_bytes += len(data)
            limit.check(call.request_bytes)
            held.add(len(data))
            pieces.append(data)
        return b"".join(pieces)


def _cancel(task: "asyncio.Task[ObservedRun]") -> None:
    task.cancel()


async def check_trigger(live: LiveRoute, incoming: IncomingCall) -> None:
    """Raises SlessError unless the http trigger admits the call. A service has a URL without a trigger."""
    route, policy = live.route, live.policy
    if policy is None:
        if route.kind is Kind.SERVICE:
            return
        raise no_url(route.name)
    if policy.open:
        return
    if not policy.http.enabled:
        raise SlessError(Code.DISABLED, f'the http trigger of {route.kind} "{route.name}" is disabled', retry_after_sec=60)
    await policy.check(incoming.request, incoming.token_check)


def no_url(name: str) -> SlessError:
    """The same error for a missing and for a hidden function, so that strangers learn nothing."""
    return SlessError(
        Code.NOT_FOUND, f'function "{name[:80]}" not found, or it has no http trigger and so no URL; its owner may use …/invoke'
    )


def check_callback(live: LiveRoute, incoming: IncomingCall) -> None:
    """Raises FORBIDDEN for an anonymous caller, unless the http trigger allows it: callbacks make this server send requests."""
    http = live.policy.http if live.policy else None
    anonymous = incoming.kind is None and (http is None or http.auth == "none")
    if anonymous and not (http and http.callbacks):
        message = f"{CALLBACK_HEADER}: only callers with a token or key may ask for a callback, unless the http trigger has callbacks: true"
        raise SlessError(Code.FORBIDDEN, message, details=[Detail(field=CALLBACK_HEADER, message=message)])


def is_preflight(live: LiveRoute, incoming: IncomingCall) -> bool:
    policy = live.policy
    return policy is not None and policy.http.enabled and policy.cors is not None and policy.cors.is_preflight(incoming.request)


def cors_headers(live: LiveRoute, incoming: IncomingCall) -> Headers | None:
    """Headers that the CORS rules of the trigger add to each answer; None without rules and for …/invoke."""
    if incoming.kind is not None or live.policy is None or live.policy.cors is None:
        return None
    return live.policy.cors.answer_headers(incoming.request)


def extra_of(incoming: IncomingCall, table: RouteTable) -> Headers:
    """CORS headers for an error, which a browser's page could not read otherwise."""
    live = table.find(incoming.namespace, incoming.name)
    return (cors_headers(live, incoming) if live else None) or []
