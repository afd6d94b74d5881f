"""/fn and …/invoke: passes an ASGI request to the proxy as a call."""

import asyncio
from collections.abc import Callable

from sless.asgi.paths import FoundPath
from sless.asgi.types import Receive, Scope, Send, VerifyToken
from sless.errors import Code, SlessError
from sless.proxy.invoke import IncomingCall, Invocations
from sless.proxy.request import CallerGone, Headers, Request


class AsgiCaller:
    """proxy.request.CallerStream over ASGI. `body_sec`: how long the caller may be silent within its body. `receive` has one
    reader at a time: `read` until the body ends, then the watcher."""

    def __init__(self, receive: Receive, send: Send, body_sec: float) -> None:
        self._body_sec = body_sec
        self._receive = receive
        self._send = send
        self._watcher: asyncio.Task[None] | None = None

    async def read(self) -> tuple[bytes, bool]:
        try:
            async with asyncio.timeout(self._body_sec):
                message = await self._receive()
        except TimeoutError:
            raise SlessError(Code.REQUEST_TIMEOUT, f"no more of the request body arrived within {self._body_sec:g} s") from None
        if message["type"] == "http.disconnect":
            raise CallerGone
        return message.get("body", b""), message.get("more_body", False)

    def watch(self, gone: Callable[[], None]) -> None:
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch(gone))

    async def start(self, status: int, headers: Headers) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    def abort(self) -> None:
        """Does nothing, because the server closes the connection after an incomplete answer."""

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()

    async def _watch(self, gone: Callable[[], None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        gone()


class Calls:
    def __init__(self, invocations: Invocations, verify: VerifyToken, body_sec: float) -> None:
        self._invocations = invocations
        self._verify = verify
        self._body_sec = body_sec

    async def __call__(self, scope: Scope, receive: Receive, send: Send, found: FoundPath) -> int:
        """Returns the status that was sent."""
        request = request_of(scope, found)
        refuse_websocket(request)
        namespace = found.namespace

        async def check_token(authorization: str | None) -> None:
            caller = await self._verify(authorization)
            caller.check(namespace)
            # The token is for sless only: with an operator's token, the tenant's code could do everything that the operator can.
            request.headers = [pair for pair in request.headers if pair[0] != b"authorization"]

        if found.kind is not None:
            authorization = request.header(b"authorization")
            await check_token(authorization.decode("latin-1") if authorization is not None else None)
        caller = AsgiCaller(receive, send, self._body_sec)
        incoming = IncomingCall(
            namespace=namespace, name=found.name, kind=found.kind, request=request, caller=caller, token_check=check_token
        )
        try:
            return await self._invocations.invoke(incoming)
        finally:
            caller.close()


def request_of(scope: Scope, found: FoundPath) -> Request:
    query: bytes = scope["query_string"]
    request = Request(scope["method"], scope["raw_path"], query, scope["headers"])
    if root_path := scope.get("root_path"):
        request.shown_path = scope["raw_path"][len(root_path) :] or b"/"
    request.target = found.rest + b"?" + query if query else found.rest
    client = scope.get("client")
    request.client = client[0] if client else ""
    request.scheme = scope["scheme"]
    return request


def refuse_websocket(request: Request) -> None:
    if request.text(b"upgrade").lower() == "websocket":
        raise SlessError(Code.NOT_IMPLEMENTED, "WebSocket connections to functions are not supported yet")
