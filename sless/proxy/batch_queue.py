"""Batches of history that are not written yet: numbered, in order, and bounded. Not thread-safe; the recorder locks it."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple


class Sealed(NamedTuple):
    """A batch with its number; numbers grow."""

    number: int
    data: bytes


class BatchQueue:
    """A writer takes the batches in order and acknowledges them by number. Batches stay here until then, in case another writer has to take
    them."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._taken: deque[Sealed] = deque()
        self._waiting: deque[Sealed] = deque()
        self.size_bytes = 0
        self.last = 0
        """The number of the newest batch."""

    def __len__(self) -> int:
        return len(self._taken) + len(self._waiting)

    def __iter__(self) -> Iterator[Sealed]:
        yield from self._taken
        yield from self._waiting

    @property
    def written(self) -> int:
        """The number up to which all batches are written or dropped."""
        first = self._taken or self._waiting
        return first[0].number - 1 if first else self.last

    def put(self, data: bytes) -> None:
        self.last += 1
        self._waiting.append(Sealed(self.last, data))
        self.size_bytes += len(data)

    def take(self) -> Sealed | None:
        """The next batch for the writer."""
        if not self._waiting:
            return None
        self._taken.append(self._waiting.popleft())
        return self._taken[-1]

    def acknowledge(self, number: int) -> None:
        """Removes the batches up to this number, which are written."""
        while self._taken and self._taken[0].number <= number:
            self.size_bytes -= len(self._taken.popleft().data)

    def take_back(self) -> None:
        """Call this when the writer has exited: batches that it did not acknowledge are due again."""
        self._waiting.extendleft(reversed(self._taken))
        self._taken.clear()

    def drop_one(self) -> Sealed | None:
        """Removes the oldest batch that no writer has taken, if the bytes exceed the limit."""
        if self.size_bytes <= self._max_bytes or not self._waiting:
            return None
        dropped = self._waiting.popleft()
        self.size_bytes -= len(dropped.data)
        return dropped
