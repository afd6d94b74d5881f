"""Errors of the control loops on all replicas of the server, for operators: the newest one per loop and workload, with a count.

Loops note them in memory, because the database itself may be failing; a separate loop writes them.
"""

import threading
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select

from sless import clock
from sless.domain.model import Kind
from sless.domain.operators import ReconcileError, TimePlace
from sless.store.engine import Database
from sless.store.operator_tables import reconcile_errors
from sless.store.queries import is_after
from sless.store.tables import workloads

MAX_PENDING = 500
MAX_MESSAGE_CHARS = 500


@dataclass(slots=True)
class _Noted:
    message: str
    first_at: datetime
    last_at: datetime
    count: int = 1


class ReconcileErrorStore:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, str], _Noted] = {}

    def note(self, loop: str, error: BaseException, workload_id: str = "") -> None:
        """Notes an error in memory, without the database."""
        now, message = clock.now(), f"{type(error).__name__}: {error}"[:MAX_MESSAGE_CHARS]
        with self._lock:
            noted = self._pending.get((loop, workload_id))
            if noted is not None:
                noted.message, noted.last_at, noted.count = message, now, noted.count + 1
            elif len(self._pending) < MAX_PENDING:
                self._pending[loop, workload_id] = _Noted(message, now, now)

    def write(self) -> None:
        """Stores what was noted; keeps it for the next time if that fails."""
        with self._lock:
            taken, self._pending = self._pending, {}
        if not taken:
            return
        insert = self._db.insert(reconcile_errors)
        new, old = insert.excluded, reconcile_errors.c
        added = {"message": new.message, "last_at": new.last_at, "count": old.count + new.count}
        rows = [
            {
                "loop": loop, "workload_id": workload_id, "message": noted.message, "count": noted.count, "first_at": noted.first_at,
                "last_at": noted.last_at,
            }
            for (loop, workload_id), noted in sorted(taken.items())
        ]  # fmt: skip
        try:
            with self._db.write() as conn:
                conn.execute(insert.on_conflict_do_update(index_elements=["loop", "workload_id"], set_=added), rows)
        except BaseException:
            self._put_back(taken)
            raise

    def _put_back(self, taken: dict[tuple[str, str], _Noted]) -> None:
        with self._lock:
            for key, noted in taken.items():
                newer = self._pending.setdefault(key, noted)
                if newer is not noted:
                    newer.first_at, newer.count = noted.first_at, noted.count + newer.count

    def list(self, limit: int | None, after: TimePlace | None = None) -> list[ReconcileError]:
        """The newest first."""
        columns, owner = reconcile_errors.c, workloads.c
        key = columns.loop + "/" + columns.workload_id  # as in ReconcileError.place
        query = select(reconcile_errors, owner.namespace, owner.kind, owner.name).outerjoin(workloads, owner.id == columns.workload_id)
        query = query.where(is_after(after, columns.last_at, key)).order_by(columns.last_at.desc(), key)
        with self._db.read() as conn:
            rows = conn.execute(query.limit(limit)).mappings().all()
        return [ReconcileError(**{**row, "kind": Kind(row["kind"]) if row["kind"] else None}) for row in rows]

    def clean(self, before: datetime) -> None:
        with self._db.write() as conn:
            conn.execute(delete(reconcile_errors).where(reconcile_errors.c.last_at < before))
