"""Capacity for concurrent work, shared fairly among tenants."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Slots:
    """Slots of one kind. A namespace gets its first slot whenever one is free; beyond that it may hold at most as many as it leaves free
    for others, so that a newcomer finds a slot even while another namespace has long runs."""

    free: int
    taken: Counter[str] = field(default_factory=Counter)
    """Slots held, by namespace."""

    def take(self, namespace: str, most: int | None = None) -> bool:
        """Whether the namespace got a slot. `most` is a further limit of this namespace."""
        mine = self.taken[namespace]
        found = self.free > 0 and (mine == 0 or mine < self.free) and (most is None or mine < most)
        self.free -= found
        self.taken[namespace] += found
        return found

    def give_back(self, namespace: str) -> None:
        self.free += 1
        self.taken[namespace] -= 1
        if not self.taken[namespace]:
            del self.taken[namespace]
