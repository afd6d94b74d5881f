"""Liveness (the event loop runs), with the version, and readiness (as `app` determines it)."""

import asyncio
from collections.abc import Awaitable, Callable

from sless._version import __version__
from sless.asgi.answers import answer_json
from sless.asgi.types import Scope, Send


async def alive(scope: Scope, send: Send) -> int:
    return await answer_json(scope, send, 200, {"status": "ok", "version": __version__})


async def ready(scope: Scope, send: Send, find_unready: Callable[[], Awaitable[str | None]]) -> int:
    """`find_unready` returns why the server cannot serve, or None."""
    try:
        async with asyncio.timeout(5):
            reason = await find_unready()
    except TimeoutError:
        reason = "the check took over 5 s"
    if reason is None:
        return await answer_json(scope, send, 200, {"status": "ok"})
    return await answer_json(scope, send, 503, {"status": "not ready", "reason": reason})
