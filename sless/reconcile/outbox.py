"""Outboxes of the delivery loop: callbacks of asynchronous calls, and notices to tenants."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from sless import metrics
from sless.domain.callback import Callback, body_of
from sless.domain.lifecycle import ENDED_CALL_STATUSES
from sless.domain.notice import Notice
from sless.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`headers` are in addition to the common ones."""

    body: bytes
    headers: dict[str, str]


class Outbox(Protocol):
    """Rows to deliver. Items have `key`, `namespace`, `url` and `attempts`."""

    @property
    def topic(self) -> str: ...

    def list_due(self, now: datetime, per_namespace: int) -> Sequence[Any]: ...

    def find_message(self, item: Any) -> Message | None:
        """The message to send; None if it is no longer needed."""

    def delivered(self, item: Any, http_status: int) -> None: ...

    def failed(self, item: Any, http_status: int | None, error: str) -> None: ...

    def postponed(self, item: Any, not_before: datetime, http_status: int | None, error: str) -> None: ...


@dataclass(frozen=True, slots=True)
class CallbackOutbox:
    store: Store
    topic: str = "callbacks"

    def list_due(self, now: datetime, per_namespace: int) -> Sequence[Callback]:
        return self.store.callbacks.list_due(now, per_namespace)

    def find_message(self, item: Callback) -> Message | None:
        run = self.store.runs.find(item.run_id)
        if run is None or run.status not in ENDED_CALL_STATUSES:
            return None
        return Message(body=body_of(run), headers={"X-Request-Id": run.request_id, "X-Sless-Invocation-Id": run.id})

    def delivered(self, item: Callback, http_status: int) -> None:
        metrics.callbacks.labels("delivered").inc()
        self.store.callbacks.delivered(item, http_status)

    def failed(self, item: Callback, http_status: int | None, error: str) -> None:
        metrics.callbacks.labels("failed").inc()
        self.store.callbacks.failed(item, http_status, error)

    def postponed(self, item: Callback, not_before: datetime, http_status: int | None, error: str) -> None:
        metrics.callbacks.labels("retried").inc()
        self.store.callbacks.postponed(item, not_before, http_status, error)


@dataclass(frozen=True, slots=True)
class NoticeOutbox:
    store: Store
    topic: str = "notices"

    def list_due(self, now: datetime, per_namespace: int) -> Sequence[Notice]:
        return self.store.notices.list_due(now, per_namespace)

    def find_message(self, item: Notice) -> Message | None:
        return Message(body=item.body.encode(errors="replace"), headers={"X-Request-Id": item.id, "X-Sless-Event": item.event})

    def delivered(self, item: Notice, http_status: int) -> None:
        metrics.notices.labels("delivered").inc()
        self.store.notices.delivered(item, http_status)

    def failed(self, item: Notice, http_status: int | None, error: str) -> None:
        metrics.notices.labels("failed").inc()
        self.store.notices.failed(item, http_status, error)

    def postponed(self, item: Notice, not_before: datetime, http_status: int | None, error: str) -> None:
        metrics.notices.labels("retried").inc()
        self.store.notices.postponed(item, not_before, http_status, error)
