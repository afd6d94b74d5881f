"""How much a group measures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """`seconds` of one measurement, and how many alternated `pairs` of them. `moment`: just enough to show that the group works; the
    figures mean nothing."""

    seconds: int = 3
    pairs: int = 5
    moment: bool = False

    def times(self, usual: int) -> int:
        """How often something is repeated: `usual`, for a moment a hundredth of it, but at least twice."""
        return max(2, usual // 100) if self.moment else usual
