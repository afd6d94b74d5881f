"""The audit trail. `note` adds an entry in the transaction of the change, so that neither exists without the other."""

import functools
import logging
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, select

from sless import actor, clock
from sless.clock import rfc3339_of
from sless.domain.audit import AuditEntry, Note
from sless.store import codec
from sless.store.engine import Database, after_commit
from sless.store.operator_tables import audit

_log = logging.getLogger("sless.audit")


def note(conn: Connection, what: Note) -> None:
    """Records who made this change, unless a control loop made it. Logs it after the commit."""
    who = actor.find()
    if who is None:
        return
    values: dict[str, Any] = {
        "at": clock.now(), "namespace": what.namespace, "sub": who.sub, "address": who.address, "request_id": who.request_id,
        "action": what.action, "kind": what.kind, "name": what.name, "changes": codec.encode(list(what.changes)),
    }  # fmt: skip
    conn.execute(audit.insert(), values)
    shown = values | {"at": rfc3339_of(values["at"]), "changes": list(what.changes)}
    after_commit(conn, functools.partial(_log_entry, shown))


class AuditStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, what: Note) -> None:
        """Adds an entry in a transaction of its own, for a change that takes several transactions."""
        with self._db.write() as conn:
            note(conn, what)

    def list_in(
        self, namespace: str | None, *, limit: int | None = None, before_id: int | None = None, since: datetime | None = None,
        name: str | None = None,
    ) -> list[AuditEntry]:  # fmt: skip
        """Newest first. `namespace` None: of all, and of the installation itself, whose entries have the namespace ""."""
        query = select(audit)
        if namespace is not None:
            query = query.where(audit.c.namespace == namespace)
        if before_id is not None:
            query = query.where(audit.c.id < before_id)
        if since is not None:
            query = query.where(audit.c.at >= since)
        if name is not None:
            query = query.where(audit.c.name == name)
        with self._db.read() as conn:
            return [_entry_of(row) for row in conn.execute(query.order_by(audit.c.id.desc()).limit(limit)).mappings()]

    def clean(self, before: datetime, batch: int = 500) -> int:
        """Deletes up to `batch` entries older than `before`; returns their number."""
        some = select(audit.c.id).where(audit.c.at < before).limit(batch)
        with self._db.write() as conn:
            return conn.execute(delete(audit).where(audit.c.id.in_(some))).rowcount


def _log_entry(entry: dict[str, Any]) -> None:
    text = '%(action)s "%(name)s" by %(sub)s from %(address)s (request %(request_id)s)'
    _log.info(text, entry, extra={"fields": {"audit": entry}})


def _entry_of(row: RowMapping) -> AuditEntry:
    return AuditEntry(**{**row, "changes": tuple(codec.decode(row["changes"]))})
