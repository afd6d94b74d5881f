"""Firings of cron triggers: triggers for the scheduler, and claims of instants. The row of the run is the claim."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, and_, or_, select, true, update

from sless import clock
from sless.domain.cron import Due, Facts, outcome_of
from sless.domain.lifecycle import OPEN_CALL_STATUSES
from sless.domain.model import Invocation, Kind, Run, Trigger, TriggerType
from sless.domain.runs import RunTarget, cron_run
from sless.domain.spec import run_event_of
from sless.store import codec, revision
from sless.store.bulk import BulkInsert
from sless.store.engine import Database
from sless.store.queries import in_batches
from sless.store.run_moves import invocation_values_of
from sless.store.tables import invocations, runs, triggers, workloads
from sless.store.triggers import trigger_of

# A firing has no callback, whose URL would have to be encrypted.
_new_runs = BulkInsert(runs, (name for name in runs.c.keys() if name != "callback_url"))  # noqa: SIM118 - not a dict
_new_invocations = BulkInsert(invocations, invocations.c.keys())
_SCHEDULED = and_(triggers.c.type == TriggerType.CRON, triggers.c.enabled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """`run` is None if nothing was written: the trigger has changed, its target does not exist, or another leader was faster."""

    due: Due
    run: Run | None


class FiringStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def revision(self) -> int:
        """Grows with every change to a trigger by a user."""
        with self._db.read() as conn:
            return revision.current(conn, revision.TRIGGERS)

    def marks(self) -> dict[str, int]:
        """Generation by id of every enabled cron trigger."""
        with self._db.read() as conn:
            return {row[0]: row[1] for row in conn.execute(select(triggers.c.id, triggers.c.generation).where(_SCHEDULED))}

    def list_enabled(self, trigger_ids: Collection[str]) -> list[Trigger]:
        """Those among `trigger_ids` that are enabled cron triggers."""
        with self._db.read() as conn:
            return [
                trigger_of(row)
                for part in in_batches(trigger_ids)
                for row in conn.execute(select(triggers).where(_SCHEDULED, triggers.c.id.in_(part))).mappings()
            ]

    def claim(self, dues: Sequence[Due]) -> list[Claimed]:
        """Writes a run (queued, skipped or missed) with its invocation for each instant, in one transaction. Durable when it returns;
        claiming an instant again changes nothing."""
        ordered = sorted(dues, key=lambda due: (due.trigger_id, due.due_at))
        with self._db.write() as conn:
            rows = _rows_of(conn, {due.trigger_id for due in ordered})
            specs = {key: codec.decode(row.spec) for key, row in rows.items()}
            # Only queried for triggers that forbid overlap.
            running = _running(conn, [key for key, spec in specs.items() if spec["overlap"] == "forbid"])
            now = clock.now()
            claimed = [
                Claimed(due=due, run=_run_of(due, rows[key], specs[key], key in running, now) if (key := due.trigger_id) in rows else None)
                for due in ordered
            ]
            made = [item.run for item in claimed if item.run is not None]
            _new_runs.run(conn, made)
            _new_invocations.run(conn, [Invocation(**invocation_values_of(run)) for run in made])
            _note(conn, made)
        return claimed

    def set_warm(self, trigger_ids: Collection[str], warm: bool) -> None:
        """Sets whether an instance is kept warm for these triggers; skips those that have been disabled in the meantime."""
        if not trigger_ids:
            return
        with self._db.write() as conn:
            for part in in_batches(trigger_ids):
                where = triggers.c.id.in_(part)
                conn.execute(update(triggers).where(where, _SCHEDULED if warm else true()).values(warm=warm))
            revision.bump(conn)


def _rows_of(conn: Connection, trigger_ids: Collection[str]) -> dict[str, Any]:
    """Triggers with their targets, by trigger id; both rows are locked until the transaction ends."""
    columns = workloads.c
    target = and_(
        columns.namespace == triggers.c.namespace,
        columns.scope == "callable",
        columns.name == triggers.c.function_ref,
        columns.deleted_at.is_(None),
    )
    query = select(
        triggers.c.id, triggers.c.generation, triggers.c.spec, triggers.c.last_schedule_time, columns.id.label("workload_id"),
        columns.namespace, columns.kind, columns.name, columns.active_version, columns.created_at,
        or_(columns.suspended.is_not(None), columns.tenant_suspended.is_not(None)).label("suspended"),
    ).join(workloads, target)  # fmt: skip
    locked = query.where(_SCHEDULED).with_for_update(read=True, key_share=True)
    return {row.id: row for part in in_batches(trigger_ids) for row in conn.execute(locked.where(triggers.c.id.in_(part)))}


def _running(conn: Connection, trigger_ids: Collection[str]) -> set[str]:
    """Ids of triggers with an open run."""
    open_runs = select(runs.c.trigger_id).where(runs.c.status.in_(OPEN_CALL_STATUSES)).distinct()
    return {name for part in in_batches(trigger_ids) for (name,) in conn.execute(open_runs.where(runs.c.trigger_id.in_(part)))}


def _run_of(due: Due, row: Any, spec: dict[str, Any], running: bool, now: datetime) -> Run | None:
    if row.generation != due.generation or due.due_at < row.created_at:
        return None
    if row.last_schedule_time is not None and due.due_at <= row.last_schedule_time:
        return None
    facts = Facts(
        target=f'{row.kind} "{row.name}"', has_version=row.active_version is not None, overlap=spec["overlap"], running=running,
        suspended=row.suspended,
    )  # fmt: skip
    target = RunTarget(workload_id=row.workload_id, namespace=row.namespace, kind=Kind(row.kind), name=row.name)
    return cron_run(due, target, run_event_of(spec["event_json"]), outcome_of(due, facts), now)


def _note(conn: Connection, made: Sequence[Run]) -> None:
    """Stores the newest instant and status of each trigger. Many triggers share an instant, so this takes few statements."""
    newest = {str(run.trigger_id): (run.due_at, run.status) for run in made}
    by_value = sorted(newest.items(), key=lambda item: (item[1], item[0]))
    for (due_at, status), items in groupby(by_value, key=lambda item: item[1]):
        for part in in_batches(name for name, _ in items):
            values = {"last_schedule_time": due_at, "last_status": str(status)}
            conn.execute(update(triggers).where(triggers.c.id.in_(part)).values(values))
