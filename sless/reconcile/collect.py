"""Cleans up old history, versions beyond the limit, unreferenced code and folders, in small batches, so that nothing waits for it."""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta

from sless import clock
from sless.config import Settings
from sless.domain.limits import LimitName
from sless.domain.model import Version
from sless.domain.ports import Builder, BuilderUnavailable, CodeStore
from sless.store import Store

_log = logging.getLogger(__name__)

PAUSE_SEC = 0.05
"""Pause between two batches, because writers of calls have priority."""
DISCARDS_AT_ONCE = 50
YOUNG_SEC = 3600.0
"""Younger artifacts without a version are kept, because a build creates them before they are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """`sweep` gets the versions to keep and drops what was unpacked on this machine for others; the builder drops what it stored
    elsewhere."""

    store: Store
    code: CodeStore
    builder: Builder
    settings: Settings
    sweep: Callable[[Collection[Version]], None]
    stopping: Callable[[], bool]

    def tick(self) -> None:
        self.prune()
        self._history()
        kept = self.store.versions.list_kept()
        self.sweep(kept)
        self._built()

    def _history(self) -> None:
        settings = self.settings
        while not self.stopping() and self.store.history.clean(
            history_days=settings.history_days, per_function=settings.history_per_function, stats_days=settings.stats_days
        ):
            time.sleep(PAUSE_SEC)
        before = clock.now() - timedelta(days=settings.audit_days)
        while not self.stopping() and self.store.audit.clean(before):
            time.sleep(PAUSE_SEC)
        self.store.revocations.clean(clock.now())
        self.store.verdicts.clean(before)
        self.store.reconcile_errors.clean(clock.now() - timedelta(days=settings.history_days))
        self.store.notices.clean(clock.now() - timedelta(days=settings.history_days))
        self.store.metering.note_stored()

    def prune(self) -> None:
        """Removes versions beyond the limit. Also a separate loop, as `tick` may take minutes."""
        own = self.store.tenants.set_limits_of_all()
        kept = {namespace: limits[LimitName.VERSIONS_KEPT] for namespace, limits in own.items() if LimitName.VERSIONS_KEPT in limits}
        for version in self.store.versions.prunable(self.settings.versions_kept, kept):
            # Remove the row first: a blob without a row only takes space, but a row without a blob would be a version that cannot start.
            key = self.store.versions.remove(version.id)
            if key is not None:
                self.code.delete(key)
            _log.info("version %d of workload %s is beyond the number kept: removed", version.number, version.workload_id)

    def _built(self) -> None:
        """Discards artifacts of removed versions. If a registry or cluster does not respond, they stay recorded for the next tick."""
        for step in (self._discard, lambda: self.builder.collect(self.store.versions.list_kept, YOUNG_SEC)):
            try:
                step()
            except BuilderUnavailable as error:
                _log.warning("unused artifacts cannot be removed now: %s", error)

    def _discard(self) -> None:
        for artifact in self.store.discards.list(DISCARDS_AT_ONCE):
            if self.stopping():
                return
            # Check again, because the same code may have been uploaded in the meantime, and its build have reused the image.
            if not self.store.discards.is_used(artifact):
                self.builder.discard(artifact)
            self.store.discards.remove(artifact)
