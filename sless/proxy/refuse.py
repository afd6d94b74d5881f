"""Errors as HTTP answers: the JSON of contract §3, and X-Sless-Error on the invoke path."""

import json

from sless.errors import SlessError
from sless.proxy.policy import MethodNotAllowed
from sless.proxy.request import CallerStream, Headers


def error_answer(error: SlessError, request_id: str, *, on_call: bool = False) -> tuple[Headers, bytes]:
    """(headers, body) of an error. `on_call` adds X-Sless-Error, which a function cannot send."""
    body = json.dumps(error.body(request_id), ensure_ascii=False).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode("latin-1")),
    ]
    if error.retry_after_sec is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_sec))
    if error.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="sless"'))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.allowed).encode("latin-1")))
    if on_call:
        headers.append((b"x-sless-error", str(error.code).encode()))
    return headers, body


async def refuse(caller: CallerStream, error: SlessError, request_id: str, extra_headers: Headers) -> int:
    """Answers a call with an error; returns the size of the body."""
    headers, body = error_answer(error, request_id, on_call=True)
    await caller.start(error.status, headers + extra_headers)
    await caller.write(body, False)
    return len(body)
