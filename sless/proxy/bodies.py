"""Bytes of bodies that the server holds in memory or on disk at one moment, in all and per owner.

An owner is a client's address or a tenant. Bodies that stream to an instance are not counted: little of them is held at a time.
"""

import ipaddress
from collections import Counter
from types import TracebackType

from sless.errors import Code, SlessError

RETRY_AFTER_SEC = 2
OWNERS_SHARE = 4
"""An owner may hold this part of all, 1/n, so that a single one cannot keep the others out."""


class Bodies:
    """Used on the event loop only. `what` names them in refusals, `setting` is the limit of all."""

    def __init__(self, max_bytes: int, *, what: str, setting: str) -> None:
        self.max_bytes = max_bytes
        self.what = what
        self.setting = setting
        self.held: Counter[str] = Counter()
        """Bytes by owner; "" is all of them."""

    def hold(self, *owners: str) -> "HeldBody":
        return HeldBody(self, owners)


class HeldBody:
    """One body; what it holds is free again after the block."""

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
    """One IPv6 client has at least 2**64 addresses."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((address, 64), strict=False)) if parsed.version == 6 else address
