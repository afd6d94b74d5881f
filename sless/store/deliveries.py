"""Deliveries to URLs of tenants (callbacks and notices): finds rows that are due, and stores their results."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import RowMapping, Select, Table, select, update

from sless import clock
from sless.domain.callback import CallbackStatus, Delivery
from sless.store.engine import Database
from sless.store.queries import heads_of

D = TypeVar("D", bound=Delivery)


class DeliveryStore(Generic[D]):
    def __init__(self, database: Database, table: Table, made_of: Callable[[RowMapping], D]) -> None:
        """`table` has `delivery_columns`."""
        self._db = database
        self._table = table
        self._made_of = made_of
        (self._key,) = table.primary_key.columns
        heads = heads_of(table, table.c.namespace, CallbackStatus.PENDING)
        self._due = select(table).where(self._key.in_(heads)).order_by(table.c.not_before, self._key)

    def list_due(self, now: datetime, per_namespace: int) -> list[D]:
        """Pending and due, oldest first; at most `per_namespace` of each namespace."""
        return self._all(self._due, now=now, most=per_namespace)

    def delivered(self, sent: D, http_status: int) -> bool:
        return self._end(sent, CallbackStatus.DELIVERED, http_status, None)

    def failed(self, sent: D, http_status: int | None, error: str) -> bool:
        """Marks it as failed for good."""
        return self._end(sent, CallbackStatus.FAILED, http_status, error)

    def postponed(self, sent: D, not_before: datetime, http_status: int | None, error: str) -> bool:
        return self._write(sent, {"not_before": not_before, "http_status": http_status, "error": error})

    def _end(self, sent: D, status: CallbackStatus, http_status: int | None, error: str | None) -> bool:
        return self._write(sent, {"status": status, "http_status": http_status, "error": error, "ended_at": clock.now()})

    def _write(self, sent: D, values: dict[str, Any]) -> bool:
        """False if the row has been replaced because the run was retried during the delivery."""
        same = (self._key == sent.key) & (self._table.c.created_at == sent.created_at)
        with self._db.write() as conn:
            return conn.execute(update(self._table).where(same).values(attempts=sent.attempts + 1, **values)).rowcount == 1

    def _all(self, query: Select[Any], **parameters: object) -> list[D]:
        with self._db.read() as conn:
            return [self._made_of(row) for row in conn.execute(query, parameters).mappings()]
