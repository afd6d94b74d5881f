"""Small complete answers over ASGI."""

import json

from sless.asgi.types import Scope, Send
from sless.errors import SlessError
from sless.ids import new_call_id, valid_request_id
from sless.proxy.refuse import error_answer
from sless.proxy.request import Headers


def request_id_of(headers: Headers) -> str | None:
    """The first X-Request-Id, if it is valid."""
    for name, value in headers:
        if name == b"x-request-id":
            return valid_request_id(value.decode("latin-1"))
    return None


async def answer(scope: Scope, send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def answer_error(scope: Scope, send: Send, error: SlessError, request_id: str | None = None) -> int:
    """Returns the status."""
    on_call = scope["raw_path"].startswith(b"/fn/")
    request_id = request_id or request_id_of(scope["headers"]) or new_call_id()
    headers, body = error_answer(error, request_id, on_call=on_call)
    await answer(scope, send, error.status, headers, body)
    return error.status


async def answer_json(scope: Scope, send: Send, status: int, value: object) -> int:
    body = json.dumps(value, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")]
    await answer(scope, send, status, headers, body)
    return status
