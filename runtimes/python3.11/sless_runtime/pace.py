"""Predicts slow calls from the duration of earlier ones."""

CLOSE_CALLS = 32
LEAST_SPREAD = 32
MOST_SPREAD = 1024


class Pace:
    """The next `spread` calls are likely to be slow; `quick_calls` counts the quick calls since the last slow one."""

    def __init__(self):
        self.spread = 0
        self.quick_calls = 0
        self._next_spread = LEAST_SPREAD

    def note_slow(self):
        """Count a slow call. A single one may be due to a busy machine; two close together are typical of the handler."""
        if self.quick_calls < CLOSE_CALLS:
            self.spread = self._next_spread
            self._next_spread = min(2 * self._next_spread, MOST_SPREAD)
        else:
            self._next_spread = LEAST_SPREAD
        self.quick_calls = 0
