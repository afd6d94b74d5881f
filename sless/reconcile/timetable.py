"""Finds the cron triggers that are due next: plans by trigger, and a heap of instants. Pure; used by the `cron` loop."""

import heapq
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import count

from sless.domain.cron import CronPlan, attention_at


class Timetable:
    def __init__(self) -> None:
        self._plans: dict[str, CronPlan] = {}
        self._heap: list[tuple[datetime, int, str]] = []
        self._entry: dict[str, int] = {}
        """The valid heap entry of each trigger; older entries are skipped when they are due."""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._plans)

    def put(self, plan: CronPlan, now: datetime) -> None:
        """Adds or replaces a plan."""
        self._plans[plan.trigger_id] = plan
        number = self._entry[plan.trigger_id] = next(self._numbers)
        moment = attention_at(plan, now)
        if moment is not None:
            heapq.heappush(self._heap, (moment, number, plan.trigger_id))
            self._tidy()

    def drop(self, trigger_ids: Iterable[str]) -> None:
        for trigger_id in trigger_ids:
            self._plans.pop(trigger_id, None)
            self._entry.pop(trigger_id, None)

    def take(self, now: datetime, most: int) -> list[CronPlan]:
        """Up to `most` due plans. The caller puts each one back."""
        found: list[CronPlan] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            _, number, trigger_id = heapq.heappop(self._heap)
            if self._entry.get(trigger_id) == number:
                found.append(self._plans[trigger_id])
        return found

    def next_moment(self) -> datetime | None:
        while self._heap and self._entry.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def changes(self, generations: Mapping[str, int]) -> tuple[set[str], set[str]]:
        """(ids to read again, ids to drop), given the triggers that exist now."""
        stale = {key for key, generation in generations.items() if key not in self._plans or self._plans[key].generation != generation}
        return stale, self._plans.keys() - generations.keys()

    def _tidy(self) -> None:
        """Limits the number of invalid entries, which stay in the heap until they are due, perhaps in a year."""
        if len(self._heap) > 2 * len(self._plans) + 1000:
            self._heap = [entry for entry in self._heap if self._entry.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)
