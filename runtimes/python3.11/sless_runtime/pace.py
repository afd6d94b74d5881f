"""Which calls are likely to take time, from how long those before them took."""

CLOSE_CALLS = 32
LEAST_SPREAD = 32
MOST_SPREAD = 1024


class Pace:
    """The next `spread` calls are likely to take time; `quick_calls` have been quick since the last that was not."""

    def __init__(self):
        self.spread = 0
        self.quick_calls = 0
        self._next_spread = LEAST_SPREAD

    def note_slow(self):
        """One slow call alone may be due to a busy machine; two close together are the handler's way."""
        if self.quick_calls < CLOSE_CALLS:
            self.spread = self._next_spread
            self._next_spread = min(2 * self._next_spread, MOST_SPREAD)
        else:
            self._next_spread = LEAST_SPREAD
        self.quick_calls = 0
