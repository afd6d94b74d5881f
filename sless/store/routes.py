"""Routes: endpoints that the reconciler writes and the snapshot that every proxy builds its table from."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, select

from sless.domain.model import Endpoint, Kind, Trigger, TriggerType, Version
from sless.domain.ports import RouteSnapshot
from sless.domain.routing import route_of
from sless.errors import NotFound
from sless.store import revision
from sless.store.engine import Database
from sless.store.tables import endpoints, triggers, workloads
from sless.store.triggers import trigger_of
from sless.store.versions import active_query, newest_query, version_of
from sless.store.workloads import is_shown, workload_of

_CALLABLE = (Kind.FUNCTION, Kind.SERVICE)


class RouteStore:
    """Is a `ports.RouteSource`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def revision(self) -> int:
        with self._db.read() as conn:
            return revision.current(conn)

    def find_snapshot(self, since_revision: int) -> RouteSnapshot | None:
        """All routes as of one moment; None when the revision is still the same."""
        with self._db.read() as conn:
            current = revision.current(conn)
            if current == since_revision:
                return None
            rows = conn.execute(select(workloads).where(workloads.c.kind.in_(_CALLABLE), is_shown())).mappings().all()
            active = _versions(conn, active_query())
            newest = _versions(conn, newest_query())
            by_target = _triggers_by_target(conn)
            by_workload = _endpoints_by_workload(conn)
        routes = [
            route_of(
                workload,
                active=active.get(workload.id),
                newest=newest.get(workload.id),
                triggers=by_target.get((workload.namespace, workload.name), ()),
                endpoints=by_workload.get(workload.id, ()),
            )
            for workload in map(workload_of, rows)
        ]
        return RouteSnapshot(revision=current, routes=tuple(routes))

    def endpoints(self, workload_id: str) -> list[Endpoint]:
        with self._db.read() as conn:
            return _endpoints(conn, workload_id)

    def set_endpoints(self, workload_id: str, wanted: Sequence[Endpoint]) -> None:
        """Writes the differences only; none, and the revision stays. Raises NOT_FOUND when the workload is gone."""
        with self._db.read() as conn:
            if _differences(_endpoints(conn, workload_id), wanted) == ([], []):
                return
        with self._db.write(gone=NotFound("workload", workload_id)) as conn:
            gone, fresh = _differences(_endpoints(conn, workload_id), wanted)
            if gone:
                conn.execute(delete(endpoints).where(endpoints.c.id.in_(gone)))
            if fresh:
                conn.execute(self._db.insert(endpoints), fresh)
            revision.bump(conn)


def _differences(known: Sequence[Endpoint], wanted: Sequence[Endpoint]) -> tuple[list[str], list[dict[str, Any]]]:
    """(ids to delete, rows to insert); a changed endpoint is in both."""
    have, want = {item.id: item for item in known}, {item.id: item for item in wanted}
    gone = [key for key, item in have.items() if want.get(key) != item]
    fresh = [_values_of(item) for key, item in want.items() if have.get(key) != item]
    return gone, fresh


def _endpoints(conn: Connection, workload_id: str) -> list[Endpoint]:
    query = select(endpoints).where(endpoints.c.workload_id == workload_id).order_by(endpoints.c.created_at, endpoints.c.id)
    return [Endpoint(**row) for row in conn.execute(query).mappings()]


def _endpoints_by_workload(conn: Connection) -> dict[str, tuple[Endpoint, ...]]:
    found: dict[str, tuple[Endpoint, ...]] = {}
    for row in conn.execute(select(endpoints).order_by(endpoints.c.created_at, endpoints.c.id)).mappings():
        item = Endpoint(**row)
        found[item.workload_id] = (*found.get(item.workload_id, ()), item)
    return found


def _triggers_by_target(conn: Connection) -> dict[tuple[str, str], tuple[Trigger, ...]]:
    """Those that matter for routes: http and event."""
    found: dict[tuple[str, str], tuple[Trigger, ...]] = {}
    served = triggers.c.type.in_((TriggerType.HTTP, TriggerType.EVENT))
    for row in conn.execute(select(triggers).where(served, triggers.c.deleted_at.is_(None)).order_by(triggers.c.name)).mappings():
        item = trigger_of(row)
        key = (item.namespace, item.function_ref)
        found[key] = (*found.get(key, ()), item)
    return found


def _versions(conn: Connection, query: Any) -> dict[str, Version]:
    return {row["workload_id"]: version_of(row) for row in conn.execute(query).mappings()}


def _values_of(item: Endpoint) -> dict[str, Any]:
    return {name: getattr(item, name) for name in endpoints.c.keys()}  # noqa: SIM118 - not a dict
