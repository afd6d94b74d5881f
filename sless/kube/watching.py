"""Watches the objects of one kind: events from the version of a list on."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import urllib3

from sless.kube.client import Kube
from sless.kube.errors import Unavailable, error_of

SILENT_SEC = 300.0
"""A stream without data for this long is broken, since servers send bookmarks about once a minute."""
BOOKMARK = "BOOKMARK"
DELETED = "DELETED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Objects of a kind that match a label selector, in all namespaces. `metadata_only`: without their content."""

    kind: str
    selector: str
    metadata_only: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """`type` as in the API: ADDED, MODIFIED, DELETED or BOOKMARK, which has only a version."""

    type: str
    item: dict[str, Any]

    @property
    def version(self) -> str:
        return str(self.item["metadata"].get("resourceVersion", ""))


class Stream:
    """One watch. Iterate in one thread; `close` may come from another."""

    def __init__(self, kube: Kube, subject: Subject, version: str, timeout_sec: float) -> None:
        """Ends by itself after `timeout_sec`. Raises KubeError, with status 410 for a version that is too old."""
        self._lock = threading.Lock()
        self._closed = False
        self._response: Any = kube.open_watch(
            subject.kind, selector=subject.selector, metadata_only=subject.metadata_only, version=version,
            timeout_sec=timeout_sec, silent_sec=SILENT_SEC,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Event]:
        """Ends with the stream. Raises KubeError if the stream ends with an error."""
        rest = b""
        try:
            for chunk in self._response.stream(1 << 16, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _event_of(line)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            if not self._closed:
                raise Unavailable(0, "Disconnected", f"the watch broke off: {error}") from error
        finally:
            with self._lock:
                self._closed = True
                self._response.close()

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._response.shutdown()


def _event_of(line: bytes) -> Event:
    said = json.loads(line)
    if said["type"] == "ERROR":
        status = said["object"]
        raise error_of(int(status.get("code") or 500), json.dumps(status).encode())
    return Event(said["type"], said["object"])
