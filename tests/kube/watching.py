"""One watch: changes of the objects that a selector matches, from a revision or from the present objects on."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from tests.kube.errors import Refused
from tests.kube.kinds import Kind
from tests.kube.registry import Object, Registry

BOOKMARK_SEC = 30
DEFAULT_TIMEOUT_SEC = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """`query` is that of the URL; `matches` applies its selectors."""

    registry: Registry
    kind: Kind
    namespace: str
    query: dict[str, str]
    matches: Callable[[Object], bool]
    metadata_only: bool = False

    def begin(self) -> AsyncIterator[bytes]:
        """Raises Refused (410)."""
        since = int(self.query.get("resourceVersion") or 0)
        oldest = self.registry.events[0].revision if self.registry.events else 0
        if since and since < oldest - 1:
            raise Refused(410, f"too old resource version: {since} ({oldest})")
        return self._lines(since)

    async def _lines(self, since: int) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()

        def on(event: str, item: Object, old: Object | None) -> None:
            if (shown := self._event_for(event, item, old)) is not None:
                queue.put_nowait((shown, item))

        if since:
            for past in list(self.registry.events):
                if past.revision > since:
                    on(past.type, past.item, past.old)
        else:
            for item in self.registry.items(self.kind.kind, self.namespace or None):
                on("ADDED", item, None)
        self.registry.listeners.append(on)
        try:
            yield b""
            if self.query.get("sendInitialEvents") == "true":
                while not queue.empty():
                    yield self._line(*queue.get_nowait())
                # All present objects have been sent: the client may treat them as a list.
                yield self._line("BOOKMARK", self._bookmark({"k8s.io/initial-events-end": "true"}))
            async for event, item in self._following(queue):
                yield self._line(event, item)
        finally:
            self.registry.listeners.remove(on)

    async def _following(self, queue: "asyncio.Queue[tuple[str, Object]]") -> AsyncIterator[tuple[str, Object]]:
        deadline = time.monotonic() + float(self.query.get("timeoutSeconds") or DEFAULT_TIMEOUT_SEC)
        while (left := deadline - time.monotonic()) > 0:
            try:
                yield await asyncio.wait_for(queue.get(), min(left, BOOKMARK_SEC))
            except TimeoutError:
                if self.query.get("allowWatchBookmarks") == "true":
                    yield "BOOKMARK", self._bookmark({})

    def _event_for(self, event: str, item: Object, old: Object | None) -> str | None:
        """The event for this watch: an object that stops matching is DELETED, one that starts to match is ADDED."""
        if item["kind"] != self.kind.kind or self.namespace not in ("", item["metadata"].get("namespace")):
            return None
        now, before = self.matches(item), old is not None and self.matches(old)
        if not (now or before):
            return None
        return "DELETED" if event == "DELETED" or not now else "MODIFIED" if before else "ADDED"

    def _line(self, event: str, item: Object) -> bytes:
        if self.metadata_only:
            item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}
        return json.dumps({"type": event, "object": item}).encode() + b"\n"

    def _bookmark(self, annotations: dict[str, str]) -> Object:
        metadata = {"resourceVersion": str(self.registry.revision), **({"annotations": annotations} if annotations else {})}
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
