"""Clean-up: old history, versions beyond the limit, code and folders that nothing refers to. Small batches, so that nobody waits for it."""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sless.config import Settings
from sless.domain.model import Version
from sless.domain.ports import CodeStore
from sless.store import Store

_log = logging.getLogger(__name__)

PAUSE_SEC = 0.05
"""Between two batches: writers of calls come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """`sweep` gets the versions that are still kept and drops what the backend made for others."""

    store: Store
    code: CodeStore
    settings: Settings
    sweep: Callable[[Collection[Version]], None]
    stopping: Callable[[], bool]

    def tick(self) -> None:
        self._history()
        self._versions()
        self.sweep(self.store.versions.list_kept())

    def _history(self) -> None:
        settings = self.settings
        while not self.stopping() and self.store.history.clean(
            history_days=settings.history_days, per_function=settings.history_per_function, stats_days=settings.stats_days
        ):
            time.sleep(PAUSE_SEC)

    def _versions(self) -> None:
        for version in self.store.versions.prunable(self.settings.versions_kept):
            # The row first: a blob without a row only takes room, a row without a blob would be a version that cannot start.
            key = self.store.versions.remove(version.id)
            if key is not None:
                self.code.delete(key)
            _log.info(
                "version %d of workload %s is beyond the %d kept: removed", version.number, version.workload_id, self.settings.versions_kept
            )
