"""Versions: one row per upload. Changes of state are compare-and-set; `domain.lifecycle` lists the allowed ones."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, case, delete, func, literal, or_, select, update

from sless import actor, clock, ids
from sless.domain import lifecycle
from sless.domain.audit import value_change
from sless.domain.model import Version, VersionState, Workload
from sless.domain.notice import NoticeEvent
from sless.errors import Code, NotFound, SlessError
from sless.store import audit, codec, discards, lease, metering, notices, revision
from sless.store.engine import Database
from sless.store.queries import in_batches
from sless.store.tables import build_logs, versions, workloads
from sless.store.workloads import lock, note_of, refuse_deleted, save_spec

_BUILDS_KEPT = 2

_OPEN = select(versions).where(versions.c.state.in_(lifecycle.OPEN_VERSION_STATES)).order_by(versions.c.created_at, versions.c.id)


class VersionStore:
    def __init__(self, database: Database, read_time: lease.ReadTime | None = None) -> None:
        self._db = database
        self._read_time = read_time or lease.database_time

    def insert(
        self, workload_id: str, *, sha256: str, code_hash: str | None, runtime: str, entrypoint: str, code_key: str, size_bytes: int,
        build_env: dict[str, str], warnings: tuple[str, ...] = (), refusal: str = "",
    ) -> Version:  # fmt: skip
        """Queued, or with a `refusal` failed; with the next number. Older queued versions are cancelled as superseded. Raises NOT_FOUND,
        or CONFLICT when the workload is being deleted."""
        with self._db.write() as conn:
            workload = lock(conn, workload_id)
            refuse_deleted(workload)
            now = clock.now()
            highest = conn.execute(select(func.max(versions.c.number)).where(versions.c.workload_id == workload_id)).scalar_one()
            version = Version(
                id=ids.new_id(), workload_id=workload_id, number=(highest or 0) + 1, sha256=sha256, code_hash=code_hash, runtime=runtime,
                entrypoint=entrypoint, state=VersionState.FAILED if refusal else VersionState.QUEUED, message=refusal,
                code_key=code_key, artifact="", size_bytes=size_bytes, attempts=0, auto_activate=True, build_env=build_env,
                created_at=now, started_at=None, ended_at=now if refusal else None, warnings=warnings,
                created_by=who.sub if (who := actor.find()) else None,
            )  # fmt: skip
            superseded = and_(versions.c.workload_id == workload_id, versions.c.state == VersionState.QUEUED, versions.c.auto_activate)
            _end(conn, superseded, VersionState.CANCELLED, f"superseded by version {version.number}")
            conn.execute(self._db.insert(versions), _values_of(version))
            number, content = value_change("version", None, version.number), value_change("sha256", None, sha256)
            audit.note(conn, note_of(workload, "upload", number, content))
            revision.bump(conn)
        return version

    def find(self, workload_id: str, number: int) -> Version | None:
        with self._db.read() as conn:
            return _find(conn, and_(versions.c.workload_id == workload_id, versions.c.number == number))

    def get(self, workload_id: str, number: int) -> Version:
        version = self.find(workload_id, number)
        if version is None:
            raise NotFound("version", number)
        return version

    def find_by_id(self, version_id: str) -> Version | None:
        with self._db.read() as conn:
            return _find(conn, versions.c.id == version_id)

    def find_newest(self, workload_id: str) -> Version | None:
        return self.newest_of([workload_id]).get(workload_id)

    def list_of(self, workload_id: str, limit: int | None = None, before_number: int | None = None) -> list[Version]:
        """Highest number first."""
        query = select(versions).where(versions.c.workload_id == workload_id).order_by(versions.c.number.desc()).limit(limit)
        if before_number is not None:
            query = query.where(versions.c.number < before_number)
        return self._all(query)

    def newest_of(self, workload_ids: Collection[str]) -> dict[str, Version]:
        return self._by_workload(newest_query(), workload_ids)

    def active_of(self, workload_ids: Collection[str]) -> dict[str, Version]:
        return self._by_workload(active_query(), workload_ids)

    def list_open(self) -> list[Version]:
        """Queued and building, oldest first."""
        return self._all(_OPEN)

    def list_kept(self) -> list[Version]:
        """All versions."""
        return self._all(select(versions).order_by(versions.c.workload_id, versions.c.number))

    def claim(self, version_id: str, holder: str) -> bool:
        """Queued → building, and one attempt more. A running build can be claimed again by its own holder, which lost it, and by others
        once its holder has no valid lease."""
        with self._db.write() as conn:
            now = self._read_time(conn)
            abandoned = or_(versions.c.claimed_by == holder, ~lease.is_alive(versions.c.claimed_by, now))
            claimable = or_(
                versions.c.state.in_(lifecycle.version_sources_of(VersionState.BUILDING)),
                and_(versions.c.state == VersionState.BUILDING, abandoned),
            )
            values = {
                "state": VersionState.BUILDING,
                "claimed_by": holder,
                "attempts": versions.c.attempts + 1,
                "started_at": clock.now(),
            }
            done = conn.execute(update(versions).where(versions.c.id == version_id, claimable).values(values)).rowcount == 1
            if done:
                revision.bump(conn)
            return done

    def finish(self, version_id: str, *, state: VersionState, message: str = "", artifact: str = "") -> bool:
        """Building → ready, failed or cancelled. Without `artifact`, that of `note` stays. A ready version becomes active in the same
        transaction, unless a newer one is active or a user has rolled back since the upload (`auto_activate`)."""
        with self._db.write() as conn:
            version = _find(conn, versions.c.id == version_id)
            if version is None:
                return False
            # Locks the workload before the version, as everywhere: no deadlock.
            workload = lock(conn, version.workload_id)
            if not _end(conn, versions.c.id == version_id, state, message, **({"artifact": artifact} if artifact else {})):
                return False
            metering.count_build(self._db, conn, workload.namespace, version.started_at, clock.now())
            if state is VersionState.FAILED:
                facts = {"kind": str(workload.kind), "name": workload.name, "version": version.number, "message": message}
                notices.notify(
                    self._db, conn, workload.namespace, NoticeEvent.BUILD_FAILED, once=(version_id, version.attempts), facts=facts
                )
            # Read again under the lock: a roll-back may have happened in between.
            version = _find(conn, versions.c.id == version_id)
            if version and state is VersionState.READY and version.auto_activate and version.number > (workload.active_version or 0):
                _activate(conn, workload, version)
            revision.bump(conn)
            return True

    def note(self, version_id: str, message: str, artifact: str = "") -> None:
        """Stores what a running build waits for, and the artifact that it may leave behind if it does not succeed."""
        with self._db.write() as conn:
            building = and_(versions.c.id == version_id, versions.c.state == VersionState.BUILDING)
            if conn.execute(update(versions).where(building).values(message=message, artifact=artifact)).rowcount:
                revision.bump(conn)

    def cancel(self, version_id: str, message: str = "cancelled") -> bool:
        with self._db.write() as conn:
            version = _find(conn, versions.c.id == version_id)
            if version is None:
                return False
            workload = lock(conn, version.workload_id)  # before the version, as in `finish`
            done = _end(conn, versions.c.id == version_id, VersionState.CANCELLED, message) > 0
            if done:
                audit.note(conn, note_of(workload, "cancel_build", value_change("version", version.number, None)))
                revision.bump(conn)
            return done

    def activate(self, workload_id: str, number: int) -> Version:
        """Makes a ready version the active one and restores its runtime and entrypoint; running builds will not replace it. Raises
        NOT_FOUND, or CONFLICT unless it is ready."""
        with self._db.write() as conn:
            workload = lock(conn, workload_id)
            refuse_deleted(workload)
            version = _find(conn, and_(versions.c.workload_id == workload_id, versions.c.number == number))
            if version is None:
                raise NotFound("version", number)
            if version.state is not VersionState.READY:
                raise SlessError(
                    Code.CONFLICT,
                    f'version {number} of {workload.kind} "{workload.name}" is {version.state}, only a ready one can be activated',
                )
            spec = replace(workload.spec, runtime=version.runtime, entrypoint=version.entrypoint)
            if (workload.active_version, workload.spec) != (number, spec):
                _activate(conn, replace(workload, spec=spec), version)
                audit.note(conn, note_of(workload, "activate", value_change("version", workload.active_version, number)))
            open_ones = and_(versions.c.workload_id == workload_id, versions.c.state.in_(lifecycle.OPEN_VERSION_STATES))
            conn.execute(update(versions).where(open_ones).values(auto_activate=False))
            revision.bump(conn)
        return version

    def set_code_hash(self, version_id: str, code_hash: str | None) -> None:
        with self._db.write() as conn:
            conn.execute(update(versions).where(versions.c.id == version_id).values(code_hash=code_hash))

    # --- build logs ---

    def add_log(self, version_id: str, lines: Sequence[str]) -> None:
        """Appends lines; drops them when the version is gone."""
        if not lines:
            return
        with self._db.write() as conn:
            # The lock keeps two writers from using the same number and shows whether the version still exists.
            if conn.execute(select(versions.c.id).where(versions.c.id == version_id).with_for_update()).one_or_none() is None:
                return
            last = conn.execute(select(func.max(build_logs.c.seq)).where(build_logs.c.version_id == version_id)).scalar_one() or 0
            rows = [{"version_id": version_id, "seq": seq, "text": text} for seq, text in enumerate(lines, start=last + 1)]
            conn.execute(self._db.insert(build_logs), rows)

    def log(self, version_id: str, after_seq: int = 0) -> list[tuple[int, str]]:
        """(seq, line) in order; seq starts at 1."""
        query = select(build_logs.c.seq, build_logs.c.text).where(build_logs.c.version_id == version_id, build_logs.c.seq > after_seq)
        with self._db.read() as conn:
            return [(row.seq, row.text) for row in conn.execute(query.order_by(build_logs.c.seq))]

    # --- clean-up ---

    def prunable(self, keep: int, namespaces: Mapping[str, int] | None = None) -> list[Version]:
        """Ended versions beyond the newest `keep` of their workload, except the active one; oldest first. `namespaces` override `keep`.

        Code that was built several times (`rebuild`) counts once, so that rebuilding removes no earlier code; its newest two builds are
        kept."""
        same = (versions.c.workload_id, versions.c.code_key, versions.c.runtime, versions.c.entrypoint)
        build = func.row_number().over(partition_by=same, order_by=versions.c.number.desc()).label("build")
        newest = func.max(versions.c.number).over(partition_by=same).label("newest")
        built = select(versions.c.id, versions.c.workload_id, build, newest).subquery()
        rank = func.dense_rank().over(partition_by=built.c.workload_id, order_by=built.c.newest.desc()).label("rank")
        ranked = select(built.c.id, built.c.build, rank).subquery()
        kept = case(namespaces, value=workloads.c.namespace, else_=keep) if namespaces else literal(keep)
        query = (
            select(versions)
            .join(ranked, ranked.c.id == versions.c.id)
            .join(workloads, workloads.c.id == versions.c.workload_id)
            .where(
                or_(ranked.c.rank > kept, ranked.c.build > _BUILDS_KEPT),
                versions.c.state.in_(lifecycle.ENDED_VERSION_STATES),
                or_(workloads.c.active_version.is_(None), workloads.c.active_version != versions.c.number),
            )
        )
        return self._all(query.order_by(versions.c.workload_id, versions.c.number))

    def remove(self, version_id: str) -> str | None:
        """Removes the row and its build log. Returns the code key if no other version uses it, else None. If the version has become
        active in the meantime, removes nothing and returns None."""
        with self._db.write() as conn:
            version = _find(conn, versions.c.id == version_id)
            if version is None or lock(conn, version.workload_id).active_version == version.number:
                return None
            discards.add(self._db, conn, versions.c.id == version_id)
            conn.execute(delete(versions).where(versions.c.id == version_id))
            others = select(func.count()).select_from(versions).where(versions.c.code_key == version.code_key)
            return None if conn.execute(others).scalar_one() else version.code_key

    def _all(self, query: Select[Any]) -> list[Version]:
        with self._db.read() as conn:
            return [version_of(row) for row in conn.execute(query).mappings()]

    def _by_workload(self, query: Select[Any], workload_ids: Collection[str]) -> dict[str, Version]:
        found: dict[str, Version] = {}
        with self._db.read() as conn:
            for batch in in_batches(workload_ids):
                part = query.where(versions.c.workload_id.in_(batch))
                found.update((row["workload_id"], version_of(row)) for row in conn.execute(part).mappings())
        return found


def newest_query() -> Select[Any]:
    """The newest version of each workload."""
    other = versions.alias("other")
    highest = select(func.max(other.c.number)).where(other.c.workload_id == versions.c.workload_id).scalar_subquery()
    return select(versions).where(versions.c.number == highest)


def active_query() -> Select[Any]:
    """The active version of each workload that has one."""
    active = and_(workloads.c.id == versions.c.workload_id, workloads.c.active_version == versions.c.number)
    return select(versions).join(workloads, active)


def version_of(row: RowMapping) -> Version:
    values = dict(row)
    values["state"] = VersionState(values["state"])
    values["warnings"] = tuple(codec.decode(values["warnings"] or "[]"))
    values["build_env"] = codec.decode(values.pop("build_env"))
    del values["claimed_by"]
    return Version(**values)


def _values_of(version: Version) -> dict[str, Any]:
    values = {name: getattr(version, name) for name in versions.c.keys() if hasattr(version, name)}  # noqa: SIM118 - not a dict
    warnings = codec.encode(list(version.warnings)) if version.warnings else None
    encoded = {"state": version.state.value, "build_env": codec.encode(version.build_env), "warnings": warnings}
    return values | encoded | {"claimed_by": None}


def _find(conn: Connection, where: ColumnElement[bool]) -> Version | None:
    row = conn.execute(select(versions).where(where)).mappings().one_or_none()
    return version_of(row) if row else None


def _end(conn: Connection, where: ColumnElement[bool], state: VersionState, message: str, **values: str) -> int:
    """Compare-and-set to a final state. Returns the number of rows changed."""
    allowed = versions.c.state.in_(lifecycle.version_sources_of(state))
    moved = update(versions).where(where, allowed).values(state=state, message=message, ended_at=clock.now(), **values)
    return conn.execute(moved).rowcount


def _activate(conn: Connection, workload: Workload, version: Version) -> None:
    changed = replace(workload, active_version=version.number, generation=workload.generation + 1, updated_at=clock.now())
    save_spec(conn, changed)
