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
from sless.store.deliveries import DeliveryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """`headers` are in addition to the common ones."""

    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """Result of one attempt: an HTTP status, or an error. `final`: a further attempt cannot succeed."""

    http_status: int | None = None
    error: str | None = None
    final: bool = False
    retry_after: str = ""


class Outbox(Protocol):
    """Rows to deliver. Items have `key`, `namespace`, `url` and `attempts`."""

    @property
    def topic(self) -> str: ...

    def list_due(self, now: datetime, per_namespace: int) -> Sequence[Any]: ...

    def find_message(self, item: Any) -> OutboxMessage | None:
        """The message to send; None if it is no longer needed."""

    def delivered(self, item: Any, http_status: int) -> None: ...

    def failed(self, item: Any, http_status: int | None, error: str) -> None: ...

    def postponed(self, item: Any, not_before: datetime, http_status: int | None, error: str) -> None: ...


class _Counted:
    """Stores results, and counts them."""

    def __init__(self, topic: str, rows: DeliveryStore[Any], results: metrics.Counter) -> None:
        self.topic = topic
        self._rows = rows
        self._results = results

    def list_due(self, now: datetime, per_namespace: int) -> Sequence[Any]:
        return self._rows.list_due(now, per_namespace)

    def delivered(self, item: Any, http_status: int) -> None:
        self._results.labels("delivered").inc()
        self._rows.delivered(item, http_status)

    def failed(self, item: Any, http_status: int | None, error: str) -> None:
        self._results.labels("failed").inc()
        self._rows.failed(item, http_status, error)

    def postponed(self, item: Any, not_before: datetime, http_status: int | None, error: str) -> None:
        self._results.labels("retried").inc()
        self._rows.postponed(item, not_before, http_status, error)


class CallbackOutbox(_Counted):
    def __init__(self, store: Store) -> None:
        super().__init__("callbacks", store.callbacks, metrics.callbacks)
        self._runs = store.runs

    def find_message(self, item: Callback) -> OutboxMessage | None:
        run = self._runs.find(item.run_id)
        if run is None or run.status not in ENDED_CALL_STATUSES:
            return None
        return OutboxMessage(body=body_of(run), headers={"X-Request-Id": run.request_id, "X-Sless-Invocation-Id": run.id})


class NoticeOutbox(_Counted):
    def __init__(self, store: Store) -> None:
        super().__init__("notices", store.notices, metrics.notices)

    def find_message(self, item: Notice) -> OutboxMessage | None:
        return OutboxMessage(body=item.body.encode(errors="replace"), headers={"X-Request-Id": item.id, "X-Sless-Event": item.event})
