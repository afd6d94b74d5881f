"""Serves build contexts to builder pods: `/internal/contexts/{id}` with a signature in the URL, streamed from disk."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from sless.asgi.types import Scope, Send

_CHUNK_BYTES = 256 * 1024

FindContext = Callable[[str, str], Path]
"""Takes the id and the query of the URL. Raises SlessError FORBIDDEN, NOT_FOUND. Called in a thread."""


async def send_context(scope: Scope, send: Send, find: FindContext, context_id: str) -> int:
    path = await asyncio.to_thread(find, context_id, scope["query_string"].decode("latin-1"))
    file = await asyncio.to_thread(path.open, "rb")
    try:
        await _send(scope, send, file, (await asyncio.to_thread(path.stat)).st_size)
    finally:
        file.close()
    return 200


async def _send(scope: Scope, send: Send, file: BinaryIO, size_bytes: int) -> None:
    headers = [
        (b"content-type", b"application/gzip"),
        (b"content-length", b"%d" % size_bytes),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    left = 0 if scope["method"] == "HEAD" else size_bytes
    while left > 0 and (chunk := await asyncio.to_thread(file.read, min(_CHUNK_BYTES, left))):
        left -= len(chunk)
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
