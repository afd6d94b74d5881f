"""Notices to tenants, written in the transaction of the event that they report. Namespaces without a `notify_url` get none."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, select, update

from sless import clock
from sless.domain.audit import Note
from sless.domain.callback import CallbackStatus
from sless.domain.model import Run
from sless.domain.notice import Notice, NoticeEvent, notice_body, notice_id_of
from sless.errors import NotFound
from sless.store import audit
from sless.store.engine import Database
from sless.store.operator_tables import notices
from sless.store.queries import heads_of
from sless.store.tables import tenants

_DUE = (
    select(notices)
    .where(notices.c.id.in_(heads_of(notices, notices.c.namespace, CallbackStatus.PENDING)))
    .order_by(notices.c.not_before, notices.c.id)
)


def notify(
    database: Database, conn: Connection, namespace: str, event: NoticeEvent, *, once: tuple[object, ...], facts: Mapping[str, Any]
) -> None:
    """`once` identifies the event, which is reported only once."""
    url = conn.execute(select(tenants.c.notify_url).where(tenants.c.namespace == namespace)).scalar_one_or_none()
    if not url:
        return
    now, notice_id = clock.now(), notice_id_of(namespace, event, *once)
    values = {
        "id": notice_id, "namespace": namespace, "url": url, "event": event.value, "status": CallbackStatus.PENDING, "attempts": 0,
        "body": notice_body(notice_id, event, namespace, now, facts), "not_before": now, "created_at": now,
    }  # fmt: skip
    conn.execute(database.insert(notices).on_conflict_do_nothing(), values)


def notify_dead(database: Database, conn: Connection, run: Run) -> None:
    facts = {"kind": str(run.kind), "name": run.name, "invocation": run.id, "message": run.message}
    notify(database, conn, run.namespace, NoticeEvent.CALL_DEAD, once=(run.id, run.attempts), facts=facts)


def hour_of(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H")


class NoticeStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def find_url(self, namespace: str) -> str | None:
        with self._db.read() as conn:
            return conn.execute(select(tenants.c.notify_url).where(tenants.c.namespace == namespace)).scalar_one_or_none()

    def set_url(self, namespace: str, url: str | None) -> None:
        """Raises NOT_FOUND."""
        with self._db.write() as conn:
            if conn.execute(update(tenants).where(tenants.c.namespace == namespace).values(notify_url=url)).rowcount != 1:
                raise NotFound("namespace", namespace)
            changes = ({"field": "notify_url"},)
            audit.note(conn, Note(namespace=namespace, kind="notifications", name=namespace, verb="update", changes=changes))

    def add(self, namespace: str, event: NoticeEvent, *, once: tuple[object, ...], facts: Mapping[str, Any]) -> None:
        """In a transaction of its own."""
        with self._db.write() as conn:
            notify(self._db, conn, namespace, event, once=once, facts=facts)

    def list_in(self, namespace: str) -> list[Notice]:
        """Newest first."""
        return self._all(select(notices).where(notices.c.namespace == namespace).order_by(notices.c.created_at.desc(), notices.c.id))

    def list_due(self, now: datetime, per_namespace: int) -> list[Notice]:
        with self._db.read() as conn:
            return [_notice_of(row) for row in conn.execute(_DUE, {"now": now, "most": per_namespace}).mappings()]

    def delivered(self, sent: Notice, http_status: int) -> bool:
        return self._write(sent, {"status": CallbackStatus.DELIVERED, "http_status": http_status, "error": None, "ended_at": clock.now()})

    def failed(self, sent: Notice, http_status: int | None, error: str) -> bool:
        return self._write(sent, {"status": CallbackStatus.FAILED, "http_status": http_status, "error": error, "ended_at": clock.now()})

    def postponed(self, sent: Notice, not_before: datetime, http_status: int | None, error: str) -> bool:
        return self._write(sent, {"not_before": not_before, "http_status": http_status, "error": error})

    def clean(self, before: datetime) -> int:
        with self._db.write() as conn:
            return conn.execute(delete(notices).where(notices.c.created_at < before)).rowcount

    def _write(self, sent: Notice, values: dict[str, Any]) -> bool:
        with self._db.write() as conn:
            return conn.execute(update(notices).where(notices.c.id == sent.id).values(attempts=sent.attempts + 1, **values)).rowcount == 1

    def _all(self, query: Any) -> list[Notice]:
        with self._db.read() as conn:
            return [_notice_of(row) for row in conn.execute(query).mappings()]


def _notice_of(row: RowMapping) -> Notice:
    return Notice(**{**row, "status": CallbackStatus(row["status"])})
