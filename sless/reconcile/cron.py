"""Cron: claims a run for each due instant, which the runs loop executes, and keeps the target warm around it if desired.

Plans are kept in memory and only read again for triggers that have changed, so idle triggers cost nothing. The claims of one second take
few transactions. Work is split into short parts with pauses in between, because calls through the proxy have priority.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from sless import clock, metrics
from sless.domain.cron import CronPlan, Due, advance, cron_plan_of, is_warm_time
from sless.domain.model import CallStatus, Trigger
from sless.domain.ports import Waker
from sless.reconcile.timetable import Timetable
from sless.store import Store

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

TICK_SEC = 1.0
PIECE = 100
"""Triggers whose next times are computed at once, which takes a few milliseconds."""
PAUSE_SEC = 0.002
READ_AT_ONCE = 250
CLAIM_AT_ONCE = 500
ABSENT_AFTER = timedelta(seconds=10)
"""Plans are read again after a pause this long between ticks, since another leader may have fired."""

_RESULTS = {CallStatus.QUEUED: "fired", CallStatus.SKIPPED: "skipped", CallStatus.MISSED: "missed"}


@dataclass(slots=True, kw_only=True)
class CronLoop:
    store: Store
    waker: Waker
    now: Callable[[], datetime] = clock.now
    _table: Timetable = field(default_factory=Timetable)
    _revision: int = -1
    _ticked_at: datetime | None = None
    _alarm: threading.Timer | None = None

    def tick(self) -> None:
        if self._ticked_at is None or not timedelta() <= self.now() - self._ticked_at < ABSENT_AFTER:
            self._forget()
        try:
            self._refresh()
            self._attend()
        except Exception:
            # Plans taken from the table may be half-done, so read all of them again.
            self._forget()
            raise
        self._ticked_at = self.now()
        self._set_alarm()

    def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()

    def _forget(self) -> None:
        self._table, self._revision = Timetable(), -1

    # --- triggers ---

    def _refresh(self) -> None:
        revision = self.store.firings.revision()
        if revision == self._revision:
            return
        stale, gone = self._table.changes(self.store.firings.marks())
        self._table.drop(gone)
        for part in _pieces(sorted(stale), READ_AT_ONCE):
            found = self.store.firings.list_enabled(part)
            # This leaves out triggers that have been disabled in the meantime.
            self._table.drop(set(part) - {trigger.id for trigger in found})
            for piece in _pieces(found):
                for trigger in piece:
                    self._plan(trigger)
        self._revision = revision
        metrics.cron_triggers.set(len(self._table))

    def _plan(self, trigger: Trigger) -> None:
        try:
            self._table.put(cron_plan_of(trigger), self.now())
        except ValueError as error:
            self._table.drop([trigger.id])
            _log.warning("cron trigger %s/%s cannot fire: %s", trigger.namespace, trigger.name, error)

    # --- firings ---

    def _attend(self) -> None:
        now = self.now()
        while plans := self._table.take(now, CLAIM_AT_ONCE):
            moved = [pair for part in _pieces(plans) for pair in [advance(plan, now) for plan in part]]
            self._claim([due for dues, _ in moved for due in dues])
            self._set_warmth([plan for _, plan in moved], now)

    def _claim(self, dues: Sequence[Due]) -> None:
        if not dues:
            return
        claimed = self.store.firings.claim(dues)
        durable_at = self.now()
        for item in claimed:
            result = _RESULTS[item.run.status] if item.run else "lost"
            metrics.cron_firings.labels(result).inc(item.due.count)
            if result in ("fired", "skipped"):
                metrics.cron_delay.observe((durable_at - item.due.due_at).total_seconds())
        if any(item.run and item.run.status is CallStatus.QUEUED for item in claimed):
            self.waker.wake("runs")

    def _set_warmth(self, plans: Sequence[CronPlan], now: datetime) -> None:
        """Puts the plans back, marked warm or cold for this time."""
        turned: dict[bool, list[str]] = {True: [], False: []}
        settled = []
        for plan in plans:
            warm = is_warm_time(plan, now)
            if warm != plan.warm:
                turned[warm].append(plan.trigger_id)
            settled.append(replace(plan, warm=warm))
        for warm, trigger_ids in turned.items():
            self.store.firings.set_warm(trigger_ids, warm)
        for plan in settled:
            self._table.put(plan, now)
        if turned[True] or turned[False]:
            for topic in ("routes", "instances"):
                self.waker.wake(topic)

    def _set_alarm(self) -> None:
        """Wakes the loop for a firing that is due before the next tick."""
        self.stop()
        moment = self._table.next_moment()
        delay_sec = (moment - self.now()).total_seconds() if moment else TICK_SEC
        if delay_sec < TICK_SEC:
            self._alarm = threading.Timer(max(0.0, delay_sec), self.waker.wake, args=("cron",))
            self._alarm.daemon = True
            self._alarm.start()


def _pieces(items: Sequence[_T], size: int = PIECE) -> Iterator[Sequence[_T]]:
    """Yields parts, with a pause after each one, so that other threads get the interpreter."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
        time.sleep(PAUSE_SEC)
