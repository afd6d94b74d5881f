"""Open connections per client."""

from collections import Counter
from collections.abc import Callable

from sless.proxy.bodies import group_of
from sless.proxy.heads import Trust


class Peers:
    """Used on the event loop only. Connections of trusted proxies, which carry many clients, are not limited."""

    def __init__(self, most: int, trust: Trust) -> None:
        self._most = most
        self._trust = trust
        self._open: Counter[str] = Counter()

    def admit(self, address: str) -> Callable[[], None] | None:
        """Counts a connection; returns what to call at its end. None: the client has too many."""
        if not address or address in self._trust:
            return _nothing
        key = group_of(address)
        if self._open[key] >= self._most:
            return None
        self._open[key] += 1
        return lambda: self._close(key)

    def _close(self, key: str) -> None:
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]


def _nothing() -> None: ...
