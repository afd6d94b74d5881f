"""Writes notices of limits that calls have exceeded. The proxy notes them in memory, because a refused call must not write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sless.domain.limits import LimitExceeded, LimitName
from sless.store import Store


class Noted(Protocol):
    def take(self) -> Mapping[tuple[str, LimitName], LimitExceeded]: ...

    def put_back(self, taken: Mapping[tuple[str, LimitName], LimitExceeded]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitNotices:
    """Ticks on every replica. If the database fails, the rest is written by the next tick."""

    store: Store
    noted: Noted

    def tick(self) -> None:
        left = dict(self.noted.take())
        try:
            for key, error in list(left.items()):
                self.store.notices.limit_reached(key[0], error)
                del left[key]
        finally:
            if left:
                self.noted.put_back(left)
