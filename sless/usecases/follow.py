"""Reads growing logs page by page (ports.Follower)."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from sless.clock import parse_rfc3339, rfc3339_of
from sless.domain.lifecycle import ENDED_VERSION_STATES
from sless.domain.model import LogLine
from sless.domain.ports import FollowPage, FollowRequest
from sless.errors import Detail, Invalid
from sless.store import Store
from sless.usecases.parts import LINES_FRESH_SEC

FIRST_TAIL = 100
"""Number of existing lines to send first, unless `tail` or `since` is given."""
MAX_TAIL = 10_000


def line_text(line: LogLine) -> str:
    """One log line as shown everywhere: time, then text."""
    return f"{rfc3339_of(line.at)} {line.text}"


def line_objects(store: Store, lines: Sequence[LogLine]) -> list[dict[str, str | None]]:
    """Log lines of one workload as JSON objects. `request_id` is None outside calls, and while a call has no record yet."""
    ids = {line.invocation_id for line in lines if line.invocation_id}
    known = store.history.request_ids_of(lines[0].workload_id, ids) if ids else {}
    return [
        {
            "time": rfc3339_of(line.at), "stream": line.stream, "invocation_id": line.invocation_id,
            "request_id": known.get(line.invocation_id), "text": line.text,
        }
        for line in lines
    ]  # fmt: skip


def shown_lines(store: Store, lines: Sequence[LogLine], query: Mapping[str, str]) -> list[str]:
    """Log lines of one workload in the format that a request asks for."""
    if query.get("format") == "json":
        return [json.dumps(item, ensure_ascii=False) for item in line_objects(store, lines)]
    return [line_text(line) for line in lines]


class LogFollower:
    """Follows the log of a workload, which never ends."""

    def __init__(self, store: Store, request: FollowRequest, freshen: Callable[[str, float], None]) -> None:
        self._store = store
        self._freshen = freshen
        self._workload = store.workloads.get(request.namespace, request.kind, request.name)
        self._since = since_of(request.query)
        self._after = request.after or 0
        self._query = request.query
        # A caller that reconnects gets all lines that it missed, a new one the last lines.
        self._tail: int | None = tail_of(request.query, None if self._since else FIRST_TAIL) if request.after is None else None

    def read(self) -> FollowPage:
        self._freshen(self._workload.id, LINES_FRESH_SEC)
        found = self._store.history.log_tail(self._workload.id, tail=self._tail, since=self._since, after_id=self._after)
        self._tail = None
        if found:
            self._after = found[-1][0]
        return FollowPage(lines=tuple(shown_lines(self._store, [line for _, line in found], self._query)), after=self._after)


class BuildFollower:
    """Follows the log of a build, which ends with the build's state."""

    def __init__(self, store: Store, request: FollowRequest) -> None:
        self._store = store
        workload = store.workloads.get(request.namespace, request.kind, request.name)
        self._version = store.versions.get(workload.id, request.version or 0)
        self._after = request.after or 0

    def read(self) -> FollowPage:
        # Read the state first, so that a line written between the two reads is in this page or the next, and never lost.
        version = self._store.versions.find_by_id(self._version.id)
        found = self._store.versions.log(self._version.id, after_seq=self._after)
        if found:
            self._after = found[-1][0]
        ended = "removed" if version is None else str(version.state) if version.state in ENDED_VERSION_STATES else None
        return FollowPage(lines=tuple(text for _, text in found), after=self._after, ended=ended)


def tail_of(query: Mapping[str, str], default: int | None) -> int | None:
    text = query.get("tail")
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > MAX_TAIL:
        raise Invalid(Detail(field="tail", message=f"expected a number of lines from 0 to {MAX_TAIL}, found {text[:40]!r}"))
    return int(text)


def since_of(query: Mapping[str, str]) -> datetime | None:
    text = query.get("since")
    if text is None:
        return None
    try:
        return parse_rfc3339(text.replace(" ", "+"))  # an unescaped + of a query arrives as a blank
    except (ValueError, OverflowError) as error:
        message = f"expected an RFC 3339 time with a zone such as 2026-01-31T09:26:53Z, found {text[:40]!r}"
        raise Invalid(Detail(field="since", message=message)) from error
