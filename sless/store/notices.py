"""Notices to tenants, written in the transaction of the event that they report. Namespaces without a `notify_url` get none."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, select, update

from sless import clock
from sless.domain.audit import Note
from sless.domain.callback import CallbackStatus
from sless.domain.limits import LimitExceeded
from sless.domain.model import Run
from sless.domain.notice import Notice, NoticeEvent, notice_body, notice_id_of
from sless.errors import NotFound
from sless.store import audit
from sless.store.deliveries import DeliveryStore
from sless.store.engine import Database
from sless.store.operator_tables import notices
from sless.store.tables import tenants


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


class NoticeStore(DeliveryStore[Notice]):
    def __init__(self, database: Database) -> None:
        super().__init__(database, notices, _notice_of)

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

    def limit_reached(self, namespace: str, error: LimitExceeded) -> None:
        """Once per hour and limit, in a transaction of its own."""
        facts = {"limit": str(error.limit), "message": error.message}
        with self._db.write() as conn:
            notify(self._db, conn, namespace, NoticeEvent.LIMIT_REACHED, once=(error.limit, hour_of(clock.now())), facts=facts)

    def list_in(self, namespace: str) -> list[Notice]:
        """Newest first."""
        return self._all(select(notices).where(notices.c.namespace == namespace).order_by(notices.c.created_at.desc(), notices.c.id))

    def clean(self, before: datetime) -> int:
        with self._db.write() as conn:
            return conn.execute(delete(notices).where(notices.c.created_at < before)).rowcount


def _notice_of(row: RowMapping) -> Notice:
    return Notice(**{**row, "status": CallbackStatus(row["status"])})
