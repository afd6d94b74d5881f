"""Counts failed sign-ins by client address, and answers them more and more slowly.

Only failures are delayed, so valid tokens are accepted whatever other clients behind the same address do. A delayed answer waits on the
event loop and occupies no thread.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from sless import metrics
from sless.asgi.types import Message, Scope
from sless.domain.durations import backoff_sec
from sless.errors import Code
from sless.proxy.bodies import group_of
from sless.proxy.heads import Trust, client_of
from sless.proxy.request import Request

_log = logging.getLogger(__name__)

FREE_FAILURES = 10
"""Failures per address that are answered at once."""
FIRST_PAUSE_SEC = 0.25
LONGEST_PAUSE_SEC = 8.0
FORGET_SEC = 300.0
"""The count of an address is reset after this time without a failure."""
ADDRESSES = 10_000
WAITING = 500
"""Maximum number of delayed answers; further ones are sent at once, so that failures cannot fill the memory."""
FAILED = frozenset({Code.UNAUTHORIZED, Code.TOKEN_MALFORMED, Code.TOKEN_EXPIRED, Code.TOKEN_BAD_SIGNATURE, Code.TOKEN_REVOKED})
"""A request without a token is not an attempt to sign in."""


class SignIns:
    """Used on the event loop only."""

    def __init__(self, trust: Trust, clock: Callable[[], float] = time.monotonic) -> None:
        self._trust = trust
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._waiting = 0

    async def failed(self, scope: Scope) -> None:
        """Call this before a refusal is sent."""
        pause_sec = self.count(client_address(scope, self._trust))
        if pause_sec and self._waiting < WAITING:
            self._waiting += 1
            try:
                await asyncio.sleep(pause_sec)
            finally:
                self._waiting -= 1

    def count(self, address: str) -> float:
        """Counts one failure; returns the seconds until its answer."""
        key, now = group_of(address), self._clock()
        number, last = self._failures.pop(key, (0, now))
        number = number + 1 if now - last < FORGET_SEC else 1
        self._failures[key] = number, now
        while len(self._failures) > ADDRESSES:
            self._failures.popitem(last=False)
        metrics.sign_in_failures.inc()
        if number <= FREE_FAILURES:
            return 0.0
        _log.warning("sign-ins from %s keep failing (%d in a row); its refusals are slowed down", key, number)
        return backoff_sec(number - FREE_FAILURES, first_sec=FIRST_PAUSE_SEC, max_sec=LONGEST_PAUSE_SEC)


def client_address(scope: Scope, trust: Trust) -> str:
    """Address of the client, behind trusted proxies; "" if unknown."""
    request = Request(scope["method"], scope["raw_path"], scope["query_string"], scope["headers"])
    client = scope.get("client")
    request.client = client[0] if client else ""
    return client_of(request, trust)


def is_refusal(message: Message) -> bool:
    """Whether this is the head of a 401 for a token that was sent. Only for answers of sless itself, since a function's may look the
    same."""
    if message["type"] != "http.response.start" or message["status"] != 401:
        return False
    return any(name.lower() == b"www-authenticate" and b"invalid_token" in value for name, value in message["headers"])
