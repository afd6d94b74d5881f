"""Places for what runs at once, shared among tenants."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Places:
    """Of one sort, taken one by one. A tenant has its first one and then no more than it leaves free to others: somebody who comes while
    another's long runs go on finds room."""

    free: int
    taken: Counter[str] = field(default_factory=Counter)
    """By namespace."""

    def take(self, namespace: str) -> bool:
        mine = self.taken[namespace]
        found = self.free > 0 and (mine == 0 or mine < self.free)
        self.free -= found
        self.taken[namespace] += found
        return found

    def give_back(self, namespace: str) -> None:
        self.free += 1
        self.taken[namespace] -= 1
        if not self.taken[namespace]:
            del self.taken[namespace]
