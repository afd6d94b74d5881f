"""The cluster's objects in memory: lists each kind once, then watches it, and lists it again at intervals to verify the view."""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from sless.backend.kubernetes.view import CACHED_KINDS, ClusterView, ObjectCache, is_older, object_key_of, view_of
from sless.domain.durations import backoff_sec
from sless.kube import Kube, KubeError, Unavailable
from sless.kube.names import ROLE, ROLE_INSTANCE, ROLE_RUN, ROLE_UNRESPONSIVE, selector_of
from sless.kube.watching import BOOKMARK, DELETED, Event, Stream, Subject

Json = dict[str, Any]
_log = logging.getLogger(__name__)

PROOF_SEC = 600.0
"""Time between two lists of a kind."""
JITTER = 0.2
_FIRST_REST_SEC = 0.5
_MOST_REST_SEC = 5.0
_WELL_SEC = 10.0
OBSERVED_KINDS = ("Deployment", "Job", "Pod")
"""Kinds observed with their content. They are listed in this order, so that a ready Deployment is never observed with older pods."""


def subjects_of(installation: str) -> dict[str, Subject]:
    whole = {
        "Deployment": selector_of(installation, ROLE_INSTANCE),
        "Job": selector_of(installation, ROLE_RUN),
        "Pod": f"{selector_of(installation)},{ROLE} in ({ROLE_INSTANCE},{ROLE_RUN},{ROLE_UNRESPONSIVE})",
    }
    parts = {kind: Subject(kind=kind, selector=selector_of(installation), metadata_only=True) for kind in CACHED_KINDS}
    return {kind: Subject(kind=kind, selector=selector) for kind, selector in whole.items()} | parts


class Mirror:
    """Calls `changed` from the watching threads, for each change and when a kind can no longer be observed."""

    def __init__(self, kube: Kube, cache: ObjectCache, changed: Callable[[], None]) -> None:
        self._kube = kube
        self._cache = cache
        self._changed = changed
        self._lock = threading.Lock()
        self._objects: dict[str, dict[str, Json]] = {kind: {} for kind in OBSERVED_KINDS}
        self._listed: dict[str, str] = {}
        """Versions of the newest lists."""
        self._deleted: dict[str, dict[str, str]] = {kind: {} for kind in OBSERVED_KINDS}
        """Versions of deletions that are newer than the newest list: a list on its way may still have these objects."""
        self._subjects = subjects_of(cache.installation)
        self._watches: dict[str, _Watch] = {}
        self.responded_at = float("-inf")
        """Time of the API's last sign of life: monotonic seconds."""

    def start(self, *, leading: bool) -> None:
        """Observes the kinds that a replica needs, or all of them for the leader."""
        for kind in (*OBSERVED_KINDS, *CACHED_KINDS) if leading else OBSERVED_KINDS:
            if kind not in self._watches:
                self._watches[kind] = _Watch(self, self._kube, self._subjects[kind])

    def stop(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        with self._lock:
            self._listed.clear()
            self._deleted = {kind: {} for kind in OBSERVED_KINDS}

    def distrust(self) -> None:
        """Drops everything after an outage of the API, so that all kinds are listed again: events may have been lost."""
        self.stop()

    def list_now(self) -> None:
        """Lists the kinds observed with their content. Raises KubeError."""
        for kind in OBSERVED_KINDS:
            self.list_kind(self._subjects[kind])

    def list_kind(self, subject: Subject) -> str:
        """Returns the version of the list. Raises KubeError."""
        began, kind = time.monotonic(), subject.kind
        items, version = self._kube.list_versioned(kind, selector=subject.selector, metadata_only=subject.metadata_only)
        with self._lock:
            if kind in self._objects:
                items = self._take_list(kind, items, version)
            if not is_older(version, self._listed.get(kind, "")):
                self._listed[kind] = version
        if kind not in self._objects or kind == "Deployment":
            self._cache.merge(kind, items, began)
        self.responded_at = time.monotonic()
        return version

    def take(self, kind: str, event: Event) -> None:
        """Applies an event, in the thread that watches the kind."""
        self.responded_at = time.monotonic()
        if event.type == BOOKMARK:
            return
        if kind not in self._objects or kind == "Deployment":
            (self._cache.forget if event.type == DELETED else self._cache.observe)(kind, event.item)
        with self._lock:
            if kind in self._objects:
                self._take_whole(kind, event)
        self._changed()

    def trouble(self) -> str:
        """Why there is no complete view, "" if there is one."""
        for watch in list(self._watches.values()):
            if watch.error:
                return watch.error
        return "" if self.has_listed() else "the cluster has not been listed yet"

    def has_listed(self) -> bool:
        return all(kind in self._listed for kind in OBSERVED_KINDS)

    def is_complete(self) -> bool:
        """Whether every kind that the leader needs has been listed and is watched."""
        return all(kind in self._listed and kind in self._watches for kind in CACHED_KINDS)

    def view(self) -> ClusterView:
        """Raises KubeError."""
        if trouble := self.trouble():
            raise Unavailable(0, "NotObserved", trouble)
        with self._lock:
            deployments, jobs, pods = (list(self._objects[kind].values()) for kind in OBSERVED_KINDS)
        return view_of(deployments, pods, jobs)

    def lost(self) -> None:
        """Called when a kind can no longer be observed, or can be again."""
        self._changed()

    def _take_list(self, kind: str, items: list[Json], version: str) -> list[Json]:
        """Returns the items that were not deleted while the list was on its way."""
        self._deleted[kind] = deleted = {key: at for key, at in self._deleted[kind].items() if is_older(version, at)}
        items = [item for item in items if _key_of(kind, item) not in deleted]
        if not is_older(version, self._listed.get(kind, "")):
            newer = {key: item for key, item in self._objects[kind].items() if is_older(version, _version_of(item))}
            self._objects[kind] = {_key_of(kind, item): _slim(item) for item in items} | newer
        return items

    def _take_whole(self, kind: str, event: Event) -> None:
        key, known = _key_of(kind, event.item), self._objects[kind]
        before = known.get(key)
        if is_older(event.version, _version_of(before) if before is not None else self._listed.get(kind, "")):
            return
        if event.type == DELETED:
            known.pop(key, None)
            self._deleted[kind][key] = event.version
        else:
            known[key] = _slim(event.item)


class _Watch:
    """Observes one kind in its own thread until it is closed. `error` says why it cannot, "" while it can."""

    def __init__(self, mirror: Mirror, kube: Kube, subject: Subject) -> None:
        self.error = ""
        self._first = True
        self._mirror = mirror
        self._kube = kube
        self._subject = subject
        self._closed = threading.Event()
        self._stream: Stream | None = None
        threading.Thread(target=self._run, name=f"sless-kube-{subject.kind}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        if (stream := self._stream) is not None:
            stream.close()

    def _run(self) -> None:
        failures = 0
        while not self._closed.is_set():
            began = time.monotonic()
            if self._list_and_follow():
                # List again immediately after a broken stream, in case the API is away; back off after repeated failures.
                failures = 0 if time.monotonic() - began > _WELL_SEC else failures
                rest_sec = backoff_sec(failures, first_sec=_FIRST_REST_SEC, max_sec=_MOST_REST_SEC) if failures else 0.0
                self._closed.wait(rest_sec + random.uniform(0, JITTER))
                failures += 1

    def _list_and_follow(self) -> bool:
        """False if it is time to list again."""
        try:
            version = self._mirror.list_kind(self._subject)
        except KubeError as error:
            if not self._closed.is_set():
                self.error = error.message
                self._mirror.lost()
            return True
        was_lost, self.error = self.error, ""
        if was_lost or self._first:
            self._first = False
            self._mirror.lost()
        try:
            self._follow(version)
        except KubeError as error:
            if not self._closed.is_set():
                _log.info("listing %ss again: %s", self._subject.kind, error.message)
            return True
        return False

    def _follow(self, version: str) -> None:
        """Follows events until it is time to list again. Raises KubeError."""
        until = time.monotonic() + PROOF_SEC * random.uniform(1 - JITTER, 1)
        while not self._closed.is_set() and (left_sec := until - time.monotonic()) > 0:
            self._stream = stream = Stream(self._kube, self._subject, version, left_sec)
            if self._closed.is_set():
                stream.close()
            for event in stream:
                version = event.version or version
                self._mirror.take(self._subject.kind, event)


def _key_of(kind: str, item: Json) -> str:
    return object_key_of({**item, "kind": kind})


def _version_of(item: Json) -> str:
    return str(item["metadata"].get("resourceVersion", ""))


def _slim(item: Json) -> Json:
    """Drops managedFields, half of the object, which the cache has already evaluated."""
    return {**item, "metadata": {name: value for name, value in item["metadata"].items() if name != "managedFields"}}
