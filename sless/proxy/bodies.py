"""Limits the bytes of bodies that the server holds in memory or on disk at a time, in total and per owner.

An owner is a client's address or a tenant. Bodies streamed to an instance do not count, because little of them is held at a time.
"""

import ipaddress
from collections import Counter
from types import TracebackType

from sless.errors import Code, SlessError

RETRY_AFTER_SEC = 2
OWNERS_SHARE = 4
"""A single owner may hold 1/n of the total, so that it cannot keep others out."""


class Bodies:
    """Used on the event loop only. `what` names the bodies in refusals, `setting` the setting of the total limit."""

    def __init__(self, max_bytes: int, *, what: str, setting: str) -> None:
        self.max_bytes = max_bytes
        self.what = what
        self.setting = setting
        self.held: Counter[str] = Counter()
        """Bytes by owner; "" is the total."""

    def hold(self, *owners: str) -> "HeldBody":
        return HeldBody(self, owners)


class HeldBody:
    """One body, as a context manager that releases its bytes at the end."""

    __slots__ = ("_bodies", "_owners", "size_bytes")

    def __init__(self, bodies: Bodies, owners: tuple[str, ...]) -> None:
        self._bodies = bodies
        self._owners = owners
        self.size_bytes = 0

    def add(self, size_bytes: int) -> None:
        """Raises OVERLOADED."""
        held, most = self._bodies.held, self._bodies.max_bytes
        if held[""] + size_bytes > most:
            raise self._refusal(f"the server holds {held['']} of at most {most} bytes of {self._bodies.what}")
        share = max(1, most // OWNERS_SHARE)
        for owner in self._owners:
            if held[owner] + size_bytes > share:
                raise self._refusal(f"the server holds {held[owner]} of at most {share} bytes of {self._bodies.what} for {owner}")
        self._change(size_bytes)

    def __enter__(self) -> "HeldBody":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._change(-self.size_bytes)

    def _change(self, by: int) -> None:
        self.size_bytes += by
        for owner in ("", *self._owners):
            self._bodies.held[owner] += by
            if not self._bodies.held[owner]:
                del self._bodies.held[owner]

    def _refusal(self, found: str) -> SlessError:
        return SlessError(Code.OVERLOADED, f"{found} (limit {self._bodies.setting}); try again", retry_after_sec=RETRY_AFTER_SEC)


def group_of(address: str) -> str:
    """The owner for an address. IPv6 addresses count by /64, because each client has at least 2**64 of them."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((address, 64), strict=False)) if parsed.version == 6 else address
