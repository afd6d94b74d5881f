"""Types of the ASGI interface, and the protocol of the token verifier."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class NamespaceChecker(Protocol):
    @property
    def expires_at(self) -> float:
        """When the token expires, in seconds since 1970."""

    def check(self, namespace: str) -> None:
        """Raises SlessError FORBIDDEN if the token does not grant access to the namespace."""


VerifyToken = Callable[[str | None], Awaitable[NamespaceChecker]]
"""Verifies an Authorization header in a thread. Raises SlessError."""


class Verifier(Protocol):
    def verify(self, authorization: str | None) -> NamespaceChecker:
        """Raises SlessError for a token that is not valid. May block (to fetch keys), so it is called in a thread."""
