"""Workloads: desired state (spec columns) and observed state (observed columns).

`generation` grows when the spec or the active version changes, so that an observation of one generation is not taken for the next. A name
belongs to its newest row: while an older one is being deleted, only the control loops see that one (`list_all`, by id).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, delete, exists, func, or_, select, update

from sless import clock, ids
from sless.domain.audit import FieldChange, Note, spec_changes
from sless.domain.lifecycle import OPEN_CALL_STATUSES
from sless.domain.model import CallStatus, Kind, Observed, Workload, WorkloadSpec
from sless.domain.notice import NoticeEvent
from sless.errors import Code, NotFound, SlessError
from sless.store import audit, codec, discards, notices, revision
from sless.store.engine import Database
from sless.store.queries import in_batches
from sless.store.tables import invocations, log_lines, tenants, versions, workloads

_CALLABLE = (Kind.FUNCTION, Kind.SERVICE)
_REMOVE_BATCH = 2_000


class WorkloadStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def insert(self, namespace: str, kind: Kind, name: str, spec: WorkloadSpec) -> Workload:
        """Raises EXISTS unless the name is free or its owner is being deleted; NOT_FOUND for an unknown namespace."""
        now = clock.now()
        workload = Workload(
            id=ids.new_id(), namespace=namespace, kind=kind, name=name, spec=spec, generation=1, active_version=None,
            observed=Observed(), created_at=now, updated_at=now,
        )  # fmt: skip
        with self._db.write(taken=lambda _text: _exists(kind, name), gone=NotFound("namespace", namespace)) as conn:
            owner = conn.execute(_newest_named(namespace, _scope_of(kind), name)).mappings().one_or_none()
            if owner is not None and owner["deleted_at"] is None:
                raise _exists(Kind(owner["kind"]), name)
            reason = conn.execute(select(tenants.c.suspended).where(tenants.c.namespace == namespace).with_for_update(read=True)).scalar()
            conn.execute(self._db.insert(workloads), _values_of(workload) | {"tenant_suspended": reason})
            audit.note(conn, note_of(workload, "create", *spec_changes(None, spec)))
            revision.bump(conn)
        return workload

    def find(self, namespace: str, kind: Kind, name: str) -> Workload | None:
        workload = self._find_named(namespace, _scope_of(kind), name)
        return workload if workload and workload.kind == kind else None

    def get(self, namespace: str, kind: Kind, name: str) -> Workload:
        workload = self.find(namespace, kind, name)
        if workload is None:
            raise NotFound(kind, name)
        return workload

    def find_callable(self, namespace: str, name: str) -> Workload | None:
        """The function or service with this name."""
        return self._find_named(namespace, _scope_of(Kind.FUNCTION), name)

    def find_callables(self, namespace: str, names: Iterable[str]) -> dict[str, Workload]:
        """Existing functions and services among `names`, by name."""
        found = dict[str, Workload]()
        with self._db.read() as conn:
            for batch in in_batches(names):
                query = _shown().where(workloads.c.namespace == namespace, workloads.c.kind.in_(_CALLABLE), workloads.c.name.in_(batch))
                found.update((row["name"], workload_of(row)) for row in conn.execute(query).mappings())
        return found

    def find_by_id(self, workload_id: str) -> Workload | None:
        with self._db.read() as conn:
            return find_by_id(conn, workload_id)

    def by_ids(self, workload_ids: Iterable[str]) -> dict[str, Workload]:
        """Existing workloads by id, including those being deleted."""
        found = dict[str, Workload]()
        with self._db.read() as conn:
            for batch in in_batches(workload_ids):
                query = select(workloads).where(workloads.c.id.in_(batch))
                found.update((row["id"], workload_of(row)) for row in conn.execute(query).mappings())
        return found

    def get_by_id(self, workload_id: str) -> Workload:
        workload = self.find_by_id(workload_id)
        if workload is None:
            raise NotFound("workload", workload_id)
        return workload

    def list_in(self, namespace: str, kinds: Iterable[Kind], *, limit: int | None = None, after_name: str | None = None) -> list[Workload]:
        """Workloads of a namespace, sorted by name."""
        query = _shown().where(workloads.c.namespace == namespace, workloads.c.kind.in_(kinds))
        query = query.order_by(workloads.c.name, workloads.c.scope).limit(limit)
        if after_name is not None:
            query = query.where(workloads.c.name > after_name)
        with self._db.read() as conn:
            return [workload_of(row) for row in conn.execute(query).mappings()]

    def count_in(self, namespace: str) -> int:
        with self._db.read() as conn:
            return conn.execute(select(func.count()).where(workloads.c.namespace == namespace, is_shown())).scalar_one()

    def list_all(self, kinds: Iterable[Kind]) -> list[Workload]:
        """Workloads of all tenants, including those being deleted."""
        query = select(workloads).where(workloads.c.kind.in_(kinds)).order_by(workloads.c.namespace, workloads.c.name)
        with self._db.read() as conn:
            return [workload_of(row) for row in conn.execute(query).mappings()]

    def update_spec(self, workload_id: str, spec: WorkloadSpec, *, expected_generation: int | None = None) -> Workload:
        """Raises PRECONDITION_FAILED unless the generation is the expected one, CONFLICT when it is being deleted."""
        with self._db.write() as conn:
            workload = lock(conn, workload_id)
            refuse_deleted(workload)
            if expected_generation not in (None, workload.generation):
                raise SlessError(
                    Code.PRECONDITION_FAILED,
                    f'{workload.kind} "{workload.name}" has changed since it was read: expected generation {expected_generation}, '
                    f"found {workload.generation}",
                )
            audit.note(conn, note_of(workload, "update", *spec_changes(workload.spec, spec)))
            workload = replace(workload, spec=spec, generation=workload.generation + 1, updated_at=clock.now())
            save_spec(conn, workload)
            revision.bump(conn)
        return workload

    def mark_deleted(self, workload_id: str) -> None:
        """Only the first call has an effect. `remove` deletes the row once nothing of it runs."""
        with self._db.write() as conn:
            wanted = and_(workloads.c.id == workload_id, workloads.c.deleted_at.is_(None))
            if conn.execute(update(workloads).where(wanted).values(deleted_at=clock.now())).rowcount:
                audit.note(conn, note_of(lock(conn, workload_id), "delete"))
                revision.bump(conn)

    def remove(self, workload_id: str) -> None:
        """Deletes the row with its versions, build logs, runs and endpoints. Idempotent.

        Invocations with their log lines, and `call_stats`, stay until the clean-up of history; open invocations end as cancelled. Log
        lines outside of calls are deleted first and in steps, so that other writers do not wait long.
        """
        outside = select(log_lines.c.id).where(log_lines.c.workload_id == workload_id, log_lines.c.invocation_id == "")
        removed = _REMOVE_BATCH
        while removed == _REMOVE_BATCH:
            with self._db.write() as conn:
                removed = conn.execute(delete(log_lines).where(log_lines.c.id.in_(outside.limit(_REMOVE_BATCH)))).rowcount
        with self._db.write() as conn:
            discards.add(self._db, conn, versions.c.workload_id == workload_id)
            if conn.execute(delete(workloads).where(workloads.c.id == workload_id)).rowcount:
                _cancel_open_invocations(conn, workload_id)
                revision.bump(conn)

    def set_observed(self, workload_id: str, observed: Observed) -> None:
        """Writes nothing if only `observed_at` differs. Ignores unknown ids, whose workloads have been removed."""
        with self._db.read() as conn:
            known = find_by_id(conn, workload_id)
        if known is None or replace(known.observed, observed_at=None) == replace(observed, observed_at=None):
            return
        with self._db.write() as conn:
            if conn.execute(update(workloads).where(workloads.c.id == workload_id).values(_observed_values(observed))).rowcount:
                if observed.failing and not known.observed.failing:
                    facts = {"kind": str(known.kind), "name": known.name, "version": known.active_version, "message": observed.message}
                    once = (workload_id, known.generation, notices.hour_of(clock.now()))
                    notices.notify(self._db, conn, known.namespace, NoticeEvent.FUNCTION_FAILED, once=once, facts=facts)
                revision.bump(conn)

    def _find_named(self, namespace: str, scope: str, name: str) -> Workload | None:
        with self._db.read() as conn:
            row = conn.execute(_newest_named(namespace, scope, name)).mappings().one_or_none()
            return workload_of(row) if row else None


def _cancel_open_invocations(conn: Connection, workload_id: str) -> None:
    still_open = and_(invocations.c.workload_id == workload_id, invocations.c.status.in_(OPEN_CALL_STATUSES))
    values = {"status": CallStatus.CANCELLED, "error": "cancelled: the workload was deleted", "finished_at": clock.now()}
    conn.execute(update(invocations).where(still_open).values(values))


def lock(conn: Connection, workload_id: str) -> Workload:
    """Reads the row and locks it until the transaction ends. Raises NotFound."""
    row = conn.execute(select(workloads).where(workloads.c.id == workload_id).with_for_update()).mappings().one_or_none()
    if row is None:
        raise NotFound("workload", workload_id)
    return workload_of(row)


def refuse_deleted(workload: Workload) -> None:
    if workload.deleted_at is not None:
        raise SlessError(Code.CONFLICT, f'{workload.kind} "{workload.name}" is being deleted')


def find_by_id(conn: Connection, workload_id: str) -> Workload | None:
    row = conn.execute(select(workloads).where(workloads.c.id == workload_id)).mappings().one_or_none()
    return workload_of(row) if row else None


def note_of(workload: Workload, verb: str, *changes: FieldChange) -> Note:
    return Note(namespace=workload.namespace, kind=workload.kind, name=workload.name, verb=verb, changes=changes)


def save_spec(conn: Connection, workload: Workload) -> None:
    """Spec columns, generation, active version and time of change."""
    values = {
        **codec.encode_spec(workload.spec),
        "generation": workload.generation,
        "active_version": workload.active_version,
        "updated_at": workload.updated_at,
    }
    conn.execute(update(workloads).where(workloads.c.id == workload.id).values(values))


def is_shown() -> ColumnElement[bool]:
    """SQL: the row is the newest of its name."""
    other = workloads.alias("newer")
    newer = or_(
        other.c.created_at > workloads.c.created_at,
        and_(other.c.created_at == workloads.c.created_at, other.c.id > workloads.c.id),
    )
    same = and_(
        other.c.namespace == workloads.c.namespace,
        other.c.scope == workloads.c.scope,
        other.c.name == workloads.c.name,
        workloads.c.deleted_at.is_not(None),
        or_(other.c.deleted_at.is_(None), newer),
    )
    return ~exists().where(and_(same, other.c.id != workloads.c.id))


def workload_of(row: RowMapping) -> Workload:
    return Workload(
        id=row["id"],
        namespace=row["namespace"],
        kind=Kind(row["kind"]),
        name=row["name"],
        spec=codec.decode_spec(row["spec"], row["secrets"]),
        generation=row["generation"],
        active_version=row["active_version"],
        observed=Observed(
            generation=row["observed_generation"],
            version=row["observed_version"],
            ready_instances=row["observed_ready"],
            message=row["observed_message"],
            failing=row["observed_failing"],
            wanted=row["observed_wanted"],
            observed_at=row["observed_at"],
        ),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        deleted_at=row["deleted_at"],
        suspended=row["suspended"] if row["suspended"] is not None else row["tenant_suspended"],
    )


def _shown() -> Select[Any]:
    return select(workloads).where(is_shown())


def _newest_named(namespace: str, scope: str, name: str) -> Select[Any]:
    return _shown().where(workloads.c.namespace == namespace, workloads.c.scope == scope, workloads.c.name == name)


def _scope_of(kind: Kind) -> str:
    return "callable" if kind in _CALLABLE else "job"


def _exists(kind: Kind, name: str) -> SlessError:
    return SlessError(Code.EXISTS, f'{kind} "{name}" already exists')


def _observed_values(observed: Observed) -> dict[str, Any]:
    return {
        "observed_generation": observed.generation,
        "observed_version": observed.version,
        "observed_ready": observed.ready_instances,
        "observed_message": observed.message,
        "observed_failing": observed.failing,
        "observed_wanted": observed.wanted,
        "observed_at": observed.observed_at,
    }


def _values_of(workload: Workload) -> dict[str, Any]:
    return {
        "id": workload.id,
        "namespace": workload.namespace,
        "kind": workload.kind,
        "scope": _scope_of(workload.kind),
        "name": workload.name,
        **codec.encode_spec(workload.spec),
        "generation": workload.generation,
        "active_version": workload.active_version,
        **_observed_values(workload.observed),
        "created_at": workload.created_at,
        "updated_at": workload.updated_at,
        "deleted_at": workload.deleted_at,
    }
