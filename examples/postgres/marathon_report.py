"""One line per check, as pytest prints them, and the sum at the end."""

import time
from collections.abc import Callable

from marathon_client import Failed, percentile


class Report:
    def __init__(self) -> None:
        self.began = time.monotonic()
        self.outcomes: list[bool] = []

    def run(self, name: str, work: Callable[[], object]) -> None:
        began, failure = time.monotonic(), ""
        try:
            work()
        except (Failed, OSError, KeyError, TypeError, ValueError) as error:
            failure = f"{type(error).__name__}: {error}"
        self.outcomes.append(not failure)
        print(f"{name:<40} {'FAILED' if failure else 'PASSED'} {time.monotonic() - began:6.1f} s", flush=True)
        if failure:
            print(f"    {failure}", flush=True)

    def end(self, durations: list[float]) -> int:
        failed = self.outcomes.count(False)
        print(f"== {len(self.outcomes) - failed} passed, {failed} failed in {time.monotonic() - self.began:.0f} s")
        print(f"   {len(durations)} calls, p50 {percentile(durations, 50):.0f} ms, p99 {percentile(durations, 99):.0f} ms")
        return 1 if failed else 0
