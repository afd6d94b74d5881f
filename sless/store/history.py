"""History: invocations and log lines, written in batches, read by page; statistics through `StatsStore`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, and_, delete, exists, func, or_, select, update

from sless import clock
from sless.domain.model import CallStatus, CallTrigger, Invocation, Kind, LogLine, TriggerType
from sless.domain.statistics import CallStats, DayUsage, LastCall
from sless.errors import Detail, Invalid
from sless.store.bulk import BulkInsert
from sless.store.cleaning import Cleaner, Retention
from sless.store.engine import Database
from sless.store.queries import in_batches
from sless.store.run_tables import runs
from sless.store.stats import StatsStore
from sless.store.tables import invocations, log_lines, meta, triggers, workloads

_LINES_LOCK = 0x736C6573_6C6F6773
"""Key of a PostgreSQL advisory lock."""
LINES_AT_ONCE = 5_000
BYTES_AT_ONCE = 8 * 2**20
"""Limit of log text per read: a function may have gigabytes of it."""
_ROWS_AT_ONCE = 500
_SESSION_PREFIX = "history:"
"""Prefix of keys in `meta` whose values are the date and the number of the newest batch."""
_INTERRUPTED = "interrupted by a stop of the server; the broker delivers the message again"
_SESSION_AGE = timedelta(days=2)

_new_invocations = BulkInsert(invocations, invocations.c.keys())
_new_lines = BulkInsert(log_lines, (name for name in log_lines.c.keys() if name != "id"))  # noqa: SIM118 - not a dict


@dataclass(frozen=True, slots=True)
class Receipt:
    """The number of a batch within a session: one process of the server, whose batches arrive in order."""

    session: str
    number: int

    @property
    def key(self) -> str:
        return _SESSION_PREFIX + self.session


class HistoryStore:
    """Implements `ports.HistorySink`."""

    def __init__(self, database: Database, stats: StatsStore) -> None:
        self._db = database
        self._stats = stats
        self._cleaner = Cleaner(database)

    def add_history(self, invocations_: Sequence[Invocation], stats: Iterable[CallStats], lines: Sequence[LogLine]) -> None:
        """Writes one batch in one transaction. Existing invocations and lines stay as they are; stats are added up."""
        with self._db.write() as conn:
            self._add(conn, invocations_, stats, lines)

    def add_once(
        self, receipt: Receipt, invocations_: Sequence[Invocation], stats: Iterable[CallStats], lines: Sequence[LogLine]
    ) -> None:  # fmt: skip
        """Like `add_history`, but does nothing if the session has already written a batch with this or a higher number."""
        with self._db.write() as conn:
            known = conn.execute(select(meta.c.value).where(meta.c.key == receipt.key)).scalar()
            if known is not None and int(known.partition(" ")[2]) >= receipt.number:
                return
            value = f"{clock.now().date().isoformat()} {receipt.number}"
            upsert = self._db.insert(meta).values(key=receipt.key, value=value)
            conn.execute(upsert.on_conflict_do_update(index_elements=[meta.c.key], set_={"value": value}))
            self._add(conn, invocations_, stats, lines)

    def forget_session(self, session: str) -> None:
        """Deletes the receipt of a session that will not send its batches again."""
        with self._db.write() as conn:
            conn.execute(delete(meta).where(meta.c.key == Receipt(session, 0).key))

    def forget_sessions(self) -> None:
        """Deletes the receipts of sessions that have not written for days."""
        before = (clock.now() - _SESSION_AGE).date().isoformat()
        with self._db.write() as conn:
            conn.execute(delete(meta).where(meta.c.key.startswith(_SESSION_PREFIX, autoescape=True), meta.c.value < before))

    def _add(self, conn: Connection, invocations_: Sequence[Invocation], stats: Iterable[CallStats], lines: Sequence[LogLine]) -> None:
        ended = {one.id for one in invocations_ if one.status is not CallStatus.RUNNING}
        self._replace_running(conn, invocations_)
        _new_invocations.run(conn, [one for one in invocations_ if one.status is not CallStatus.RUNNING or one.id not in ended])
        self._stats.add(conn, stats)
        if lines:
            if not self._db.is_sqlite:
                # Ids are assigned before the commit. With several writers, a reader that follows by id could see a higher id first and
                # skip a lower one that is committed later.
                conn.execute(select(func.pg_advisory_xact_lock(_LINES_LOCK)))
            _new_lines.run(conn, lines)

    def end_running_messages(self) -> None:
        """Marks calls for messages that were running when their server was killed; the broker delivers the messages again."""
        target = and_(triggers.c.namespace == workloads.c.namespace, triggers.c.function_ref == workloads.c.name)
        targets = select(workloads.c.id).join(triggers, target).where(triggers.c.type == TriggerType.EVENT)
        columns = invocations.c
        running = and_(columns.workload_id.in_(targets), columns.status == CallStatus.RUNNING, columns.trigger == CallTrigger.EVENT)
        # Events sent by hand are runs, which have a row of their own.
        found = select(columns.id).where(running, ~exists().where(runs.c.id == columns.id))
        with self._db.read() as conn:
            ids = conn.execute(found).scalars().all()
        values = {"status": CallStatus.CANCELLED, "error": _INTERRUPTED, "finished_at": clock.now()}
        for some in in_batches(ids):
            with self._db.write() as conn:
                conn.execute(update(invocations).where(columns.id.in_(some), columns.status == CallStatus.RUNNING).values(values))

    @staticmethod
    def _replace_running(conn: Connection, invocations_: Sequence[Invocation]) -> None:
        """Removes the rows of messages' calls that have begun (`Recorder.add`) and end with this batch."""
        ended = [one.id for one in invocations_ if one.trigger is CallTrigger.EVENT and one.status is not CallStatus.RUNNING]
        begun = or_(invocations.c.status == CallStatus.RUNNING, invocations.c.error == _INTERRUPTED)
        for some in in_batches(ended):
            conn.execute(delete(invocations).where(invocations.c.id.in_(some), begun))

    def list_invocations(
        self, workload_id: str, *, status: CallStatus | None = None, trigger: CallTrigger | None = None, since: datetime | None = None,
        limit: int = 100, before: str | None = None,
    ) -> list[Invocation]:  # fmt: skip
        """Newest first. `before` is the last id of the previous page; raises Invalid when it is unknown."""
        columns = invocations.c
        query = select(invocations).where(columns.workload_id == workload_id)
        if status is not None:
            query = query.where(columns.status == status)
        if trigger is not None:
            query = query.where(columns.trigger == trigger)
        if since is not None:
            query = query.where(columns.started_at >= since)
        with self._db.read() as conn:
            if before is not None:
                place = conn.execute(select(columns.started_at).where(columns.id == before, columns.workload_id == workload_id)).scalar()
                if place is None:
                    raise Invalid(Detail(field="cursor", message=f'expected the id of an invocation, found "{before}"'))
                older = and_(columns.started_at == place, columns.id < before)
                query = query.where(columns.started_at <= place, or_(columns.started_at < place, older))
            query = query.order_by(columns.started_at.desc(), columns.id.desc()).limit(limit)
            return [_invocation_of(row) for row in conn.execute(query).mappings()]

    def find_invocation(self, workload_id: str, id_or_request_id: str) -> Invocation | None:
        """Finds a call by id, or else the newest one with this request id."""
        columns = invocations.c
        by_id = select(invocations).where(columns.id == id_or_request_id, columns.workload_id == workload_id)
        by_request = select(invocations).where(columns.workload_id == workload_id, columns.request_id == id_or_request_id)
        by_request = by_request.order_by(columns.started_at.desc(), columns.id.desc()).limit(1)
        with self._db.read() as conn:
            row = conn.execute(by_id).mappings().one_or_none() or conn.execute(by_request).mappings().one_or_none()
            return _invocation_of(row) if row else None

    def find_in(self, namespace: str, id_or_request_id: str) -> Invocation | None:
        """Finds a call by id, even of a deleted workload, or else the newest one with this request id among existing workloads."""
        columns = invocations.c
        by_id = select(invocations).where(columns.id == id_or_request_id, columns.namespace == namespace)
        living = select(workloads.c.id).where(workloads.c.namespace == namespace)
        by_request = select(invocations).where(columns.workload_id.in_(living), columns.request_id == id_or_request_id)
        by_request = by_request.order_by(columns.started_at.desc(), columns.id.desc()).limit(1)
        with self._db.read() as conn:
            row = conn.execute(by_id).mappings().one_or_none() or conn.execute(by_request).mappings().one_or_none()
            return _invocation_of(row) if row else None

    def lines_of(self, workload_id: str, invocation_id: str) -> list[LogLine]:
        """Lines in the order of writing. Only of this workload, because an instance can attribute lines to any id."""
        query = select(log_lines).where(log_lines.c.invocation_id == invocation_id, log_lines.c.workload_id == workload_id)
        with self._db.read() as conn:
            return [_line_of(row) for row in conn.execute(query.order_by(log_lines.c.id)).mappings()]

    def request_ids_of(self, workload_id: str, invocation_ids: Iterable[str]) -> dict[str, str]:
        """Request ids by invocation id, of calls of this workload that have a record; calls on instances get theirs when they end."""
        columns, found = invocations.c, dict[str, str]()
        with self._db.read() as conn:
            for batch in in_batches(invocation_ids):
                query = select(columns.id, columns.request_id).where(columns.id.in_(batch), columns.workload_id == workload_id)
                found.update((row.id, row.request_id) for row in conn.execute(query))
        return found

    def log_tail(
        self, workload_id: str, *, tail: int | None = None, since: datetime | None = None, after_id: int = 0
    ) -> list[tuple[int, LogLine]]:
        """(row id, line), oldest first; `tail` limits it to the newest ones. A page has at most LINES_AT_ONCE lines (or `tail`) and about
        BYTES_AT_ONCE; to follow, pass the last row id as `after_id` until a page is empty."""
        columns = log_lines.c
        query = select(log_lines).where(columns.workload_id == workload_id, columns.id > after_id)
        if since is not None:
            query = query.where(columns.at >= since)
        query = query.order_by(columns.id).limit(LINES_AT_ONCE) if tail is None else query.order_by(columns.id.desc()).limit(tail)
        found, size = [], 0
        with self._db.read() as conn, conn.execution_options(yield_per=_ROWS_AT_ONCE).execute(query) as rows:
            for row in rows.mappings():
                found.append((row["id"], _line_of(row)))
                size += len(row["text"])
                if size >= BYTES_AT_ONCE:
                    break
        return found if tail is None else found[::-1]

    def stats(self, workload_id: str, since: datetime, until: datetime) -> list[CallStats]:
        return self._stats.read(workload_id, since, until)

    def slots(self, workload_ids: Iterable[str], since: datetime, slot: timedelta, number: int) -> dict[str, list[tuple[int, int]]]:
        return self._stats.slots(workload_ids, since, slot, number)

    def newest_of(self, workload_ids: Iterable[str]) -> dict[str, LastCall]:
        """The newest invocation of each workload that has one."""
        columns, other = invocations.c, invocations.alias("other")
        newest = (
            select(other.c.id)
            .where(other.c.workload_id == workloads.c.id)
            .order_by(other.c.started_at.desc())
            .limit(1)
            .correlate(workloads)
            .scalar_subquery()
        )
        shown = (columns.workload_id, columns.status, columns.http_status, columns.started_at)
        found: dict[str, LastCall] = {}
        with self._db.read() as conn:
            for batch in in_batches(workload_ids):
                query = select(*shown).select_from(workloads.join(invocations, columns.id == newest)).where(workloads.c.id.in_(batch))
                for key, status, http_status, at in conn.execute(query):
                    found[key] = LastCall(status=CallStatus(status), http_status=http_status, at=at)
        return found

    def count_cold(self, workload_id: str, since: datetime) -> int:
        """Number of calls since then that waited for a start."""
        columns = invocations.c
        query = select(func.count()).where(columns.workload_id == workload_id, columns.started_at >= since, columns.cold)
        with self._db.read() as conn:
            return int(conn.execute(query).scalar_one())

    def usage(self, namespace: str, since: datetime) -> list[DayUsage]:
        return self._stats.usage(namespace, since)

    def clean(self, *, history_days: int, per_function: int, stats_days: int, batch: int = 500) -> int:
        """One small step of clean-up. Returns the number of deleted rows, 0 when nothing is left to do."""
        return self._cleaner.step(Retention(history_days=history_days, per_function=per_function, stats_days=stats_days, batch=batch))


def _invocation_of(row: RowMapping) -> Invocation:
    values = dict(row)
    values["kind"], values["trigger"], values["status"] = Kind(row["kind"]), CallTrigger(row["trigger"]), CallStatus(row["status"])
    return Invocation(**values)


def _line_of(row: RowMapping) -> LogLine:
    values = dict(row)
    del values["id"]
    return LogLine(**values)
