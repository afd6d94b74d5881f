"""The actor of the current request, who makes its changes, for the audit trail.

The actor is a context variable, because the store writes the trail in the transaction of the change, many calls below the request that
knows the caller. A thread that executes a request for another one runs in a copy of its context (`contextvars.copy_context`). Control loops
have no actor: their changes follow from those of users.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """`address` is the client's, behind trusted proxies; empty if unknown."""

    sub: str
    address: str
    request_id: str


_current: ContextVar[Actor | None] = ContextVar("actor", default=None)


def find() -> Actor | None:
    return _current.get()


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    token = _current.set(actor)
    try:
        yield
    finally:
        _current.reset(token)
