"""domain.messages.MessageInvoker: AMQP messages as calls of instances, over their keep-alive connections, recorded like other calls."""

import re

from sless.domain.messages import MessageCall, MessageOutcome
from sless.domain.model import CallStatus, CallTrigger
from sless.domain.ports import Route
from sless.errors import Code, SlessError
from sless.proxy.forward import Forwarder, Forwarding
from sless.proxy.recorder import Recorder
from sless.proxy.request import CallRecord, Headers, Request
from sless.proxy.routes import RouteTable

_UNSERVED = frozenset(
    {
        Code.NOT_FOUND, Code.NOT_READY, Code.BUILD_FAILED, Code.NO_INSTANCES, Code.OVERLOADED, Code.DISABLED, Code.SUSPENDED,
        Code.UNAVAILABLE,
        Code.SHUTTING_DOWN,
    }
)  # fmt: skip
_PRINTABLE = re.compile(r"[\x20-\x7e]+")
_NON_RETRYABLE = frozenset({b"invalid_json"})
_CRASHED = frozenset({Code.FUNCTION_EXITED, Code.OUT_OF_MEMORY, Code.FUNCTION_BROKE_OFF})


class MessageCalls:
    def __init__(self, table: RouteTable, forwarder: Forwarder, recorder: Recorder) -> None:
        self._table = table
        self._forwarder = forwarder
        self._recorder = recorder

    async def deliver(self, call: MessageCall) -> MessageOutcome:
        """Records the attempt only if it reaches an instance."""
        live = self._table.find_by_id(call.workload_id)
        if live is None:
            return _unserved("the function does not exist")
        if not live.route.wants_instances:
            return _unserved(f'{live.route.kind} "{live.route.name}" has no instances yet')
        request = _request_of(call)
        record = _MessageRecord(live.route, request, call)
        record.recorder = self._recorder
        answer = _MessageCaller(call.body)
        non_retryable = crashed = False
        try:
            live.check_served()
            await self._forwarder.forward(Forwarding(live=live, call=record, request=request, caller=answer, extra_headers=[]))
        except SlessError as error:
            if error.code in _UNSERVED:
                return _unserved(error.message)
            record.http_status = error.status
            record.finish(CallStatus.TIMEOUT if error.code is Code.TIMEOUT else CallStatus.FAILED, error.message)
            non_retryable, crashed = error.code is Code.TOO_LARGE, error.code in _CRASHED
        except BaseException:
            record.finish(CallStatus.CANCELLED, "the server stopped")
            self._recorder.add(record)
            raise
        non_retryable = non_retryable or answer.fault in _NON_RETRYABLE
        if non_retryable and record.status is CallStatus.FAILED:
            record.status = CallStatus.DEAD
        self._recorder.add(record)
        ok = record.status is CallStatus.SUCCEEDED
        why = "" if ok else record.error or ""
        return MessageOutcome(ok=ok, request_id=record.request_id, error=why, non_retryable=non_retryable, crashed=crashed)


def _unserved(reason: str) -> MessageOutcome:
    return MessageOutcome(ok=False, error=reason, served=False)


def _request_of(call: MessageCall) -> Request:
    headers: Headers = [(b"content-length", b"%d" % len(call.body))]
    # The property may hold any text; a line break in it would start another header, even one that only sless may send.
    if _PRINTABLE.fullmatch(call.content_type):
        headers.append((b"content-type", call.content_type.encode()))
    request = _MessageRequest("POST", b"/", b"", headers)
    request.request_id = call.request_id
    request.extra = f"\r\nx-sless-message: {call.shown}"
    return request


class _MessageRequest(Request):
    __slots__ = ("extra",)


class _MessageRecord(CallRecord):
    """Only a 2xx is a success; a failure on the last attempt is `dead`. The `recorder` gets it at its beginning, too."""

    __slots__ = ("attempts", "last", "recorder")

    def __init__(self, route: Route, request: Request, call: MessageCall) -> None:
        super().__init__(route, CallTrigger.EVENT, request)
        # As for runs: no method and no path.
        self.method, self.path = "", b""
        self.attempts = call.attempt
        self.last = call.last
        self.recorder: Recorder | None = None

    def begin(self, version: int) -> None:
        """Records that the call has begun, since messages may take long."""
        super().begin(version)
        if self.recorder is not None:
            self.recorder.add(self, CallStatus.RUNNING)

    def finish(self, status: CallStatus, error: str | None = None) -> None:
        failed = status in (CallStatus.FAILED, CallStatus.TIMEOUT)
        super().finish(CallStatus.DEAD if failed and self.last else status, error)

    def finish_answered(self) -> None:
        if 200 <= (self.http_status or 0) < 300:
            self.finish(CallStatus.SUCCEEDED)
        else:
            self.finish(CallStatus.FAILED, self.error or f"the function answered with status {self.http_status}: expected 2xx")


class _MessageCaller:
    """request.CallerStream with the message as its body; drops the answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.fault: bytes | None = None

    async def read(self) -> tuple[bytes, bool]:
        return self._body, False

    def watch(self, gone: object) -> None: ...

    async def start(self, status: int, headers: Headers) -> None:
        if status >= 400:
            self.fault = next((value for name, value in headers if name == b"x-sless-error"), None)

    async def write(self, data: bytes, more: bool) -> None: ...

    def abort(self) -> None: ...
