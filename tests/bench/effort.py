"""How much a group measures."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """`seconds` of one measurement, and the number of alternating `pairs` of them. `moment`: just enough to show that the group works; the
    figures mean nothing."""

    seconds: int = 3
    pairs: int = 5
    moment: bool = False

    def at_least(self, seconds: int) -> "Effort":
        """With measurements of at least `seconds`, except for a moment."""
        return self if self.moment else replace(self, seconds=max(self.seconds, seconds))

    def times(self, usual: int) -> int:
        """How often something is repeated: `usual` times, or for a moment a hundredth of that, but at least twice."""
        return max(2, usual // 100) if self.moment else usual

    def some(self, cases: Iterable[T]) -> list[T]:
        """All cases, or for a moment only the first."""
        return list(cases)[: 1 if self.moment else None]
