"""Runs: work accepted for later. Status changes are compare-and-set and also update the invocation with the same id."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select

from sless import clock
from sless.domain.model import CallStatus, CallTrigger, Run
from sless.domain.runs import Attempt
from sless.errors import NotFound
from sless.store.engine import Database
from sless.store.queries import heads_of, in_batches
from sless.store.run_moves import RunMoves, find, invocation_values_of, light, note, run_of, values_of
from sless.store.stats import StatsStore
from sless.store.tables import attempts, invocations, runs

_DUE = (
    light()
    .where(runs.c.id.in_(heads_of(runs, runs.c.workload_id, CallStatus.QUEUED)))
    .order_by(runs.c.not_before, runs.c.created_at, runs.c.id)
)
_RUNNING = light().where(runs.c.status == CallStatus.RUNNING).order_by(runs.c.started_at, runs.c.id)


class RunStore:
    def __init__(self, database: Database, stats: StatsStore) -> None:
        self._db = database
        self._stats = stats

    # --- accepting ---

    def insert(self, run: Run) -> bool:
        """False if it exists: the same id, the same `job_run_id` of the workload, or the same firing of a trigger. Durable when it
        returns. Raises NOT_FOUND if the workload is gone."""
        with self._db.write(gone=NotFound(run.kind, run.name)) as conn:
            done = RunMoves(conn, self._db, self._stats).insert(run)
            if done:
                note(conn, run, "run" if run.trigger is CallTrigger.JOB else "fire")
            return done

    def insert_all(self, accepted: Sequence[Run]) -> None:
        """Inserts in one transaction, and leaves existing runs unchanged. Raises NOT_FOUND when one of the workloads is gone; then nothing
        is written."""
        with self._db.write(gone=NotFound("workload", "of one of several runs")) as conn:
            conn.execute(self._db.insert(runs).on_conflict_do_nothing(), [values_of(run) for run in accepted])
            conn.execute(self._db.insert(invocations).on_conflict_do_nothing(), [invocation_values_of(run) for run in accepted])

    def queued_of(self, namespaces: Collection[str]) -> dict[tuple[str, str], tuple[int, int]]:
        """(namespace, workload id) → number and bytes of queued runs."""
        columns = runs.c
        found: dict[tuple[str, str], tuple[int, int]] = {}
        with self._db.read() as conn:
            for batch in in_batches(namespaces):
                query = select(columns.namespace, columns.workload_id, func.count(), func.sum(columns.size_bytes))
                query = query.where(columns.status == CallStatus.QUEUED, columns.namespace.in_(batch))
                for row in conn.execute(query.group_by(columns.namespace, columns.workload_id)):
                    found[row[0], row[1]] = (int(row[2]), int(row[3]))
        return found

    # --- reading ---

    def find(self, run_id: str) -> Run | None:
        with self._db.read() as conn:
            return find(conn, run_id)

    def by_ids(self, run_ids: Collection[str]) -> dict[str, Run]:
        """Existing runs among these ids, by id."""
        found = dict[str, Run]()
        with self._db.read() as conn:
            for batch in in_batches(run_ids):
                query = select(runs).where(runs.c.id.in_(batch))
                found.update((row["id"], run_of(row)) for row in conn.execute(query).mappings())
        return found

    def get(self, run_id: str) -> Run:
        run = self.find(run_id)
        if run is None:
            raise NotFound("run", run_id)
        return run

    def newest_of(self, workload_ids: Collection[str]) -> dict[str, Run]:
        """The run with the highest `job_run_id` of each workload."""
        other = runs.alias("other")
        highest = select(func.max(other.c.job_run_id)).where(other.c.workload_id == runs.c.workload_id).scalar_subquery()
        found: dict[str, Run] = {}
        with self._db.read() as conn:
            for batch in in_batches(workload_ids):
                query = select(runs).where(runs.c.workload_id.in_(batch), runs.c.job_run_id == highest)
                found.update((row["workload_id"], run_of(row)) for row in conn.execute(query).mappings())
        return found

    def list_due(self, now: datetime, per_workload: int) -> list[Run]:
        """Queued and due, oldest first; at most `per_workload` of each workload, so that a long queue costs no more than a short one.
        Without events and requests (`get` reads them)."""
        return self._all(_DUE, now=now, most=per_workload)

    def list_running(self) -> list[Run]:
        """Without events and requests."""
        return self._all(_RUNNING)

    def running_workloads(self) -> set[str]:
        with self._db.read() as conn:
            return set(conn.execute(select(runs.c.workload_id).where(runs.c.status == CallStatus.RUNNING)).scalars())

    def resting_of(self, run_ids: Collection[str]) -> set[str]:
        """Ids of runs among these that are not running."""
        found = set[str]()
        with self._db.read() as conn:
            for batch in in_batches(run_ids):
                query = select(runs.c.id).where(runs.c.id.in_(batch), runs.c.status != CallStatus.RUNNING)
                found.update(conn.execute(query).scalars())
        return found

    def count(self, status: CallStatus) -> int:
        with self._db.read() as conn:
            return int(conn.execute(select(func.count()).select_from(runs).where(runs.c.status == status)).scalar_one())

    def attempts_of(self, run_id: str) -> list[Attempt]:
        """First to last."""
        query = select(attempts).where(attempts.c.run_id == run_id).order_by(attempts.c.number)
        with self._db.read() as conn:
            return [Attempt(**{**row, "status": CallStatus(row["status"])}) for row in conn.execute(query).mappings()]

    # --- moving ---

    @contextmanager
    def moves(self) -> Iterator[RunMoves]:
        """Several status changes in one transaction."""
        with self._db.write() as conn:
            yield (moves := RunMoves(conn, self._db, self._stats))
            moves.close()

    def unclaim(self, run_id: str, not_before: datetime, message: str) -> bool:
        """Running → queued, as if it had not been claimed."""
        with self.moves() as moves:
            return moves.unclaim(run_id, not_before, message)

    def finish(
        self, run_id: str, *, status: CallStatus, result: str | None = None, message: str = "", exit_code: int | None = None,
        http_status: int | None = None, attempt: CallStatus | None = None,
    ) -> bool:  # fmt: skip
        """Queued or running → a final status. Updates `call_stats` and makes the callback due."""
        values = {"result": result, "message": message, "exit_code": exit_code, "http_status": http_status}
        with self.moves() as moves:
            return moves.finish(run_id, status, attempt or status, values)

    def cancel(self, run_id: str) -> bool:
        """Queued or running → cancelled."""
        values = {"result": None, "message": "cancelled", "exit_code": None, "http_status": None}
        with self.moves() as moves:
            done = moves.finish(run_id, CallStatus.CANCELLED, CallStatus.CANCELLED, values)
            if done:
                moves.note(run_id, "cancel_call")
            return done

    def rerun(self, run_id: str) -> bool:
        """Unsuccessful → queued, for `max_attempts` more attempts."""
        with self.moves() as moves:
            done = moves.rerun(run_id, clock.now())
            if done:
                moves.note(run_id, "retry_call")
            return done

    def _all(self, query: Select[Any], **parameters: Any) -> list[Run]:
        with self._db.read() as conn:
            return [run_of(row) for row in conn.execute(query, parameters).mappings()]
