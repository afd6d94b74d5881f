"""Names of the ASGI interface, and what the front needs of who checks tokens."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class NamespaceChecker(Protocol):
    def check(self, namespace: str) -> None:
        """Raises SlessError FORBIDDEN for a namespace the token does not open."""


class Verifier(Protocol):
    def verify(self, authorization: str | None) -> NamespaceChecker:
        """Raises SlessError when the header's token is no good. May block (keys are fetched), so it is called in a thread."""
