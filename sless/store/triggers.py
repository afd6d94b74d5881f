"""Triggers: the API writes the spec columns, the scheduler the observed ones."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, delete, or_, select, true, update

from sless import clock, ids
from sless.domain.audit import FieldChange, Note, trigger_changes
from sless.domain.cron import is_rescheduled
from sless.domain.model import CallStatus, Trigger, TriggerType
from sless.domain.notice import NoticeEvent
from sless.errors import Code, NotFound, SlessError
from sless.store import audit, codec, notices, revision
from sless.store.engine import Database
from sless.store.tables import triggers


class TriggerStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def insert(
        self, namespace: str, *, name: str, type: TriggerType, function_ref: str, enabled: bool = True,
        spec: dict[str, Any] | None = None, secrets: dict[str, str] | None = None,
    ) -> Trigger:  # fmt: skip
        """Raises EXISTS for a taken name, CONFLICT for a second http trigger of one target, NOT_FOUND for an unknown namespace."""
        now = clock.now()
        trigger = Trigger(
            id=ids.new_id(), namespace=namespace, name=name, type=type, function_ref=function_ref, enabled=enabled, spec=spec or {},
            secrets=secrets or {}, generation=1, created_at=now, updated_at=now, scheduled_since=now,
        )  # fmt: skip
        with self._db.write(taken=lambda text: _taken(text, trigger), gone=NotFound("namespace", namespace)) as conn:
            same_name = and_(triggers.c.namespace == namespace, triggers.c.name == name)
            if conn.execute(select(triggers.c.id).where(same_name)).first():
                raise _name_taken(name)
            _refuse_second_http(conn, trigger)
            conn.execute(self._db.insert(triggers), values_of(trigger))
            audit.note(conn, note_of(trigger, "create", *trigger_changes(None, trigger)))
            _bump(conn)
        return trigger

    def find(self, namespace: str, name: str) -> Trigger | None:
        found = self._all(select(triggers).where(triggers.c.namespace == namespace, triggers.c.name == name))
        return found[0] if found else None

    def get(self, namespace: str, name: str) -> Trigger:
        trigger = self.find(namespace, name)
        if trigger is None:
            raise NotFound("trigger", name)
        return trigger

    def find_by_id(self, trigger_id: str) -> Trigger | None:
        found = self._all(select(triggers).where(triggers.c.id == trigger_id))
        return found[0] if found else None

    def list_in(self, namespace: str, limit: int | None = None, after_name: str | None = None) -> list[Trigger]:
        """Triggers of a namespace, sorted by name."""
        query = select(triggers).where(triggers.c.namespace == namespace)
        if after_name is not None:
            query = query.where(triggers.c.name > after_name)
        return self._all(query.order_by(triggers.c.name).limit(limit))

    def list_all(self, type: TriggerType | None = None) -> list[Trigger]:
        """Triggers of all tenants."""
        query = select(triggers).order_by(triggers.c.namespace, triggers.c.name, triggers.c.id)
        return self._all(query if type is None else query.where(triggers.c.type == type))

    def list_affecting_instances(self) -> list[Trigger]:
        """Triggers of all tenants that may need instances: http and event ones, and cron ones with an upcoming firing."""
        return self._all(select(triggers).where(affects_instances()).order_by(triggers.c.name))

    def list_for(self, namespace: str, function_ref: str) -> list[Trigger]:
        """The triggers of one function or service, by name."""
        target = and_(triggers.c.namespace == namespace, triggers.c.function_ref == function_ref)
        return self._all(select(triggers).where(target).order_by(triggers.c.name))

    def update(
        self, trigger_id: str, *, function_ref: str, enabled: bool, spec: dict[str, Any], secrets: dict[str, str],
        expected_generation: int | None = None,
    ) -> Trigger:  # fmt: skip
        """Raises NOT_FOUND, PRECONDITION_FAILED, or CONFLICT for a second http trigger of one target."""
        second = SlessError(Code.CONFLICT, _second_http_text(function_ref))
        with self._db.write(taken=lambda _text: second) as conn:
            known = _lock(conn, trigger_id)
            if expected_generation not in (None, known.generation):
                raise SlessError(
                    Code.PRECONDITION_FAILED,
                    f'trigger "{known.name}" has changed since it was read: expected generation {expected_generation}, '
                    f"found {known.generation}",
                )
            changed = replace(
                known, function_ref=function_ref, enabled=enabled, spec=spec, secrets=secrets, generation=known.generation + 1,
                updated_at=clock.now(),
            )  # fmt: skip
            if is_rescheduled(known, changed) or not enabled:
                changed = replace(changed, scheduled_since=changed.updated_at, warm=False)
            _refuse_second_http(conn, changed)
            conn.execute(update(triggers).where(triggers.c.id == trigger_id).values(values_of(changed)))
            audit.note(conn, note_of(changed, "update", *trigger_changes(known, changed)))
            _bump(conn)
        return changed

    def remove(self, trigger_id: str) -> None:
        with self._db.write() as conn:
            known = conn.execute(select(triggers).where(triggers.c.id == trigger_id).with_for_update()).mappings().one_or_none()
            if known is not None:
                conn.execute(delete(triggers).where(triggers.c.id == trigger_id))
                audit.note(conn, note_of(trigger_of(known), "delete"))
                _bump(conn)

    def set_observed(self, trigger_id: str, *, message: str, active: bool, last_status: str | None) -> None:
        """Status of the listener. Does not affect routes, so the revision stays."""
        values = {"observed_message": message, "observed_active": active, "last_status": last_status}
        with self._db.write() as conn:
            if last_status == CallStatus.DEAD:
                self._notify_dead(conn, trigger_id)
            conn.execute(update(triggers).where(triggers.c.id == trigger_id).values(values))

    def _notify_dead(self, conn: Connection, trigger_id: str) -> None:
        """Notifies the tenant that a message went to the dead letter queue, at most once per hour."""
        known = conn.execute(select(triggers).where(triggers.c.id == trigger_id)).mappings().one_or_none()
        if known is None or known["last_status"] == CallStatus.DEAD:
            return
        facts = {"kind": "trigger", "name": known["name"], "message": "a message was moved to the dead letter queue"}
        once = (trigger_id, notices.hour_of(clock.now()))
        notices.notify(self._db, conn, known["namespace"], NoticeEvent.CALL_DEAD, once=once, facts=facts)

    def _all(self, query: Select[Any]) -> list[Trigger]:
        with self._db.read() as conn:
            return [trigger_of(row) for row in conn.execute(query).mappings()]


def trigger_of(row: RowMapping) -> Trigger:
    values = dict(row)
    values["type"] = TriggerType(values["type"])
    values["spec"] = codec.decode(values["spec"])
    values["secrets"] = codec.decode(values.pop("secrets"))
    return Trigger(**values)


def note_of(trigger: Trigger, verb: str, *changes: FieldChange) -> Note:
    return Note(namespace=trigger.namespace, kind="trigger", name=trigger.name, verb=verb, changes=changes)


def note_end(conn: Connection, trigger_id: str, due_at: datetime | None, status: CallStatus) -> None:
    """Records how a run of the trigger ended, unless a newer firing exists. A manual run (no instant) is the newest."""
    newest = true() if due_at is None else or_(triggers.c.last_schedule_time.is_(None), triggers.c.last_schedule_time <= due_at)
    conn.execute(update(triggers).where(triggers.c.id == trigger_id, newest).values(last_status=str(status)))


def affects_instances() -> ColumnElement[bool]:
    """SQL: the trigger affects instances and routes."""
    served = triggers.c.type.in_((TriggerType.HTTP, TriggerType.EVENT))
    warm = and_(triggers.c.type == TriggerType.CRON, triggers.c.warm, triggers.c.enabled)
    return or_(served, warm)


def _bump(conn: Connection) -> None:
    revision.bump(conn, revision.TRIGGERS)
    revision.bump(conn)


def values_of(trigger: Trigger) -> dict[str, Any]:
    values = {name: getattr(trigger, name) for name in triggers.c.keys() if hasattr(trigger, name)}  # noqa: SIM118 - not a dict
    return values | {"type": trigger.type.value, "spec": codec.encode(trigger.spec), "secrets": codec.encode(trigger.secrets)}


def _lock(conn: Connection, trigger_id: str) -> Trigger:
    row = conn.execute(select(triggers).where(triggers.c.id == trigger_id).with_for_update()).mappings().one_or_none()
    if row is None:
        raise NotFound("trigger", trigger_id)
    return trigger_of(row)


def _refuse_second_http(conn: Connection, trigger: Trigger) -> None:
    """The partial unique index protects against concurrency; this check can name the existing trigger."""
    if trigger.type is not TriggerType.HTTP:
        return
    same_target = and_(triggers.c.namespace == trigger.namespace, triggers.c.function_ref == trigger.function_ref)
    other = and_(triggers.c.type == TriggerType.HTTP, triggers.c.id != trigger.id)
    name = conn.execute(select(triggers.c.name).where(same_target, other)).scalar_one_or_none()
    if name is not None:
        raise SlessError(Code.CONFLICT, f'{_second_http_text(trigger.function_ref)}: "{name}"')


def _second_http_text(function_ref: str) -> str:
    return f'"{function_ref}" already has an http trigger'


def _name_taken(name: str) -> SlessError:
    return SlessError(Code.EXISTS, f'trigger "{name}" already exists')


def _taken(text: str, trigger: Trigger) -> SlessError:
    """Both databases name the index or its columns; only the index of http triggers contains `function_ref`."""
    if "function_ref" in text:
        return SlessError(Code.CONFLICT, _second_http_text(trigger.function_ref))
    return _name_taken(trigger.name)
