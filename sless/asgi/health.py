"""Liveness and readiness. Alive says only that the event loop turns; ready asks what `app` knows."""

import asyncio
from collections.abc import Callable

from sless.asgi.answers import answer_json
from sless.asgi.types import Scope, Send


async def alive(scope: Scope, send: Send) -> int:
    return await answer_json(scope, send, 200, {"status": "ok"})


async def ready(scope: Scope, send: Send, find_unready: Callable[[], str | None]) -> int:
    """`find_unready` (in a thread) says why the server cannot serve yet, None when it can."""
    try:
        async with asyncio.timeout(5):
            reason = await asyncio.to_thread(find_unready)
    except TimeoutError:
        reason = "the check took over 5 s"
    if reason is None:
        return await answer_json(scope, send, 200, {"status": "ok"})
    return await answer_json(scope, send, 503, {"status": "not ready", "reason": reason})
