"""Flask behind a2wsgi. The request body is read completely, within its limit, before Flask gets the request, so it occupies no thread."""

import asyncio
import tempfile
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import IO, Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from a2wsgi import WSGIMiddleware

from sless.asgi.answers import request_id_of
from sless.asgi.sign_ins import client_address
from sless.asgi.types import Message, Receive, Scope, Send, VerifyToken
from sless.config import Settings
from sless.errors import FULL_ERRNOS, Code, SlessError, storage_full
from sless.ids import new_call_id
from sless.proxy.bodies import Bodies, HeldBody, group_of
from sless.proxy.heads import Trust
from sless.proxy.request import BodyLimit, CallerGone, Headers
from sless.proxy.turns import Turns

_THREADS = 10
_LONG_AT_ONCE = 3
"""Concurrent uploads and downloads of code, which take seconds: one per tenant, in separate threads."""
_ANSWERS_BYTES = 256 * 2**20
"""Limit on answers held for callers, which may read slowly."""
_SOURCE_BYTES = 8 * 2**20
"""Size assumed for a download of code until it is known."""
_LARGE_ANSWER_BYTES = 256 * 1024
_IN_MEMORY_BYTES = 1 * 2**20
_IDLE_SEC = 60.0
_FORM_OVERHEAD_BYTES = 64 * 1024
_BODY = "sless.body"


class Mount:
    """`verify` checks the token before any byte of a body is stored."""

    def __init__(self, app: WSGIApplication, settings: Settings, bodies: Bodies, verify: VerifyToken) -> None:
        self._settings = settings
        self._trust = Trust(settings.trusted_proxies)
        self._verify = verify
        self._bodies = bodies
        self._answers = Bodies(_ANSWERS_BYTES, what="answers", setting="fixed")
        self._inner = _mounted(app, _THREADS)
        self._long = _mounted(app, _LONG_AT_ONCE)
        self._turns = Turns("uploads and downloads of code", at_once=_LONG_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Returns the status of Flask's answer. Raises SlessError before Flask gets the request, CallerGone if the body breaks off."""
        request_id = request_id_of(scope["headers"]) or new_call_id()
        status = 0

        owner = await self._owner(scope)
        answer = self._answers.hold(owner)
        turn = AsyncExitStack()

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                await turn.aclose()  # the work is done; a slow reader must not keep the turn
                answer.add(max(0, _length_of(message["headers"]) - answer.size_bytes))
                status = message["status"]
                if not any(name == b"x-request-id" for name, _ in message["headers"]):
                    message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode("latin-1"))]
            await send(message)

        with answer, self._bodies.hold(owner) as held, await self._read(scope, receive, held) as body:
            client = (client_address(scope, self._trust), 0)
            inner = {**scope, "headers": flask_headers(scope["headers"], request_id), "client": client, _BODY: body}
            if _is_long(scope):
                if scope["method"] == "GET":
                    # Account for the answer first, so that callers who do not read their answers cause no work.
                    answer.add(_SOURCE_BYTES)
                async with turn:
                    await turn.enter_async_context(self._turns.turn(owner))
                    await self._long(inner, receive, send_on)
            else:
                await self._inner(inner, receive, send_on)
        return status

    async def _owner(self, scope: Scope) -> str:
        """The namespace, or else the client's address. A body, or long work, requires a token for the namespace. Raises SlessError."""
        parts = scope["raw_path"].split(b"/", 4)
        if len(parts) < 2 or parts[1] != b"v1":
            return group_of(client_address(scope, self._trust))
        namespace = parts[3].decode("latin-1") if len(parts) > 3 and parts[2] == b"namespaces" else ""
        has_body = any(name in (b"content-length", b"transfer-encoding") and value != b"0" for name, value in scope["headers"])
        if has_body or _is_long(scope):
            authorization = next((value for name, value in scope["headers"] if name == b"authorization"), None)
            caller = await self._verify(authorization.decode("latin-1") if authorization is not None else None)
            if namespace:
                caller.check(namespace)
                return namespace
        return group_of(client_address(scope, self._trust))

    async def _read(self, scope: Scope, receive: Receive, held: HeldBody) -> IO[bytes]:
        limit = self._limit(scope)
        limit.check(next((int(value) for key, value in scope["headers"] if key == b"content-length"), 0))
        body: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - the caller closes it
        try:
            size = 0
            async for data in _pieces(receive):
                size += len(data)
                limit.check(size)
                held.add(len(data))
                body.write(data)
        except OSError as error:
            body.close()
            if error.errno in FULL_ERRNOS:
                raise storage_full("there is no space for the request body") from error
            raise
        except BaseException:
            body.close()
            raise
        body.seek(0)
        return body

    def _limit(self, scope: Scope) -> BodyLimit:
        """An upload in a form or in base64 may be larger than its zip; the use case checks the size of the zip itself."""
        settings = self._settings
        if not (scope["method"] == "POST" and scope["raw_path"].endswith(b"/upload")):
            return BodyLimit(settings.max_json_bytes, "max_json_bytes")
        content_type = next((value for key, value in scope["headers"] if key == b"content-type"), b"")
        if content_type.startswith(b"application/zip"):
            return BodyLimit(settings.max_zip_bytes, "max_zip_bytes")
        if content_type.startswith(b"multipart/"):
            return BodyLimit(settings.max_zip_bytes + _FORM_OVERHEAD_BYTES, "max_zip_bytes")
        return BodyLimit(settings.max_zip_bytes * 3 // 2 + _FORM_OVERHEAD_BYTES, "max_zip_bytes")


def _mounted(app: WSGIApplication, threads: int) -> Any:
    """An unlimited queue of answers keeps slow readers from occupying threads; the size of answers is limited before they begin."""
    mounted: Any = _with_body(app)  # a2wsgi has WSGI types of its own
    return WSGIMiddleware(mounted, workers=threads, send_queue_size=0)


def _is_long(scope: Scope) -> bool:
    path: bytes = scope["raw_path"]
    return path.startswith(b"/v1/") and path.endswith((b"/upload", b"/source"))


def _length_of(headers: Headers) -> int:
    """The length of a large answer; 0 for small ones, which are not worth counting."""
    length = next((int(value) for name, value in headers if name == b"content-length"), 0)
    return length if length > _LARGE_ANSWER_BYTES else 0


async def _pieces(receive: Receive) -> Any:
    more = True
    while more:
        try:
            async with asyncio.timeout(_IDLE_SEC):
                message = await receive()
        except TimeoutError:
            raise SlessError(Code.REQUEST_TIMEOUT, f"no more of the request body arrived within {_IDLE_SEC:g} s") from None
        if message["type"] == "http.disconnect":
            raise CallerGone
        more = message.get("more_body", False)
        yield message.get("body", b"")


def flask_headers(headers: Headers, request_id: str) -> Headers:
    """Drops names with "_", which WSGI confuses with "-"; joins cookies into one header; sets the request id."""
    kept = [
        (name, value)
        for name, value in headers
        if b"_" not in name and name not in (b"cookie", b"x-request-id", b"content-length", b"transfer-encoding")
    ]
    cookies = [value for name, value in headers if name == b"cookie"]
    if cookies:
        kept.append((b"cookie", b"; ".join(cookies)))
    kept.append((b"x-request-id", request_id.encode("latin-1")))
    return kept


def _with_body(app: WSGIApplication) -> WSGIApplication:
    """Passes the body to Flask with its length, even if it was sent in chunks."""

    def call(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        body: IO[bytes] = environ["asgi.scope"][_BODY]
        body.seek(0, 2)
        size = body.tell()
        body.seek(0)
        environ["wsgi.input"] = body
        environ["wsgi.input_terminated"] = True
        if size:
            environ["CONTENT_LENGTH"] = str(size)
        return app(environ, start_response)

    return call
