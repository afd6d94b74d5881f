"""Control loops: changes enqueue keys, and one task per controller takes them in turn."""

import asyncio
import logging
import time
import traceback
from collections.abc import Callable

from tests.kube.registry import Object, Registry

_log = logging.getLogger(__name__)
Key = tuple[str, str]


class Loop:
    """Calls `sync(namespace, name)` for each added key; `later` adds one after a delay. Errors go to `failed`."""

    def __init__(self, sync: Callable[[str, str], None], failed: Callable[[str], None]) -> None:
        self._sync, self._failed = sync, failed
        self._due: dict[Key, None] = {}
        self._timers: dict[Key, tuple[float, asyncio.TimerHandle]] = {}
        self._scheduled = False

    def add(self, namespace: str, name: str) -> None:
        self._due[(namespace, name)] = None
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def add_object(self, item: Object) -> None:
        self.add(item["metadata"].get("namespace", ""), item["metadata"]["name"])

    def later(self, seconds: float, namespace: str, name: str) -> None:
        """The earliest of several delays wins."""
        key, due = (namespace, name), time.monotonic() + max(seconds, 0)
        known = self._timers.get(key)
        if known is not None and known[0] <= due:
            return
        if known is not None:
            known[1].cancel()
        self._timers[key] = (due, asyncio.get_running_loop().call_later(max(seconds, 0), self._ring, key))

    def _ring(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(*key)

    def _work(self) -> None:
        self._scheduled = False
        due, self._due = self._due, {}
        for key in due:
            try:
                self._sync(*key)
            except Exception:
                self._failed(f"{self._sync}: {key}: {traceback.format_exc()}")


def add_owners(registry: Registry, loop: Loop, item: Object, kind: str) -> None:
    """Enqueues the owners of this kind."""
    for reference in item["metadata"].get("ownerReferences") or []:
        if reference["kind"] == kind and reference.get("controller"):
            loop.add(item["metadata"].get("namespace", ""), reference["name"])
