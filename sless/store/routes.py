"""Endpoints, which the control loops write, and the snapshot from which each proxy builds its table of routes."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, select

from sless.domain.model import Endpoint
from sless.domain.ports import RouteSnapshot
from sless.errors import NotFound
from sless.store import revision
from sless.store.engine import Database
from sless.store.snapshot import SnapshotReader
from sless.store.tables import endpoints
from sless.store.tenants import set_limits


class RouteStore:
    """Implements `ports.RouteSource`."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._reader = SnapshotReader()

    def revision(self) -> int:
        with self._db.read() as conn:
            return revision.current(conn)

    def find_snapshot(self, since_revision: int) -> RouteSnapshot | None:
        """All routes as of one moment; None when the revision is still the same."""
        with self._db.read() as conn:
            current = revision.current(conn)
            if current == since_revision:
                return None
            return RouteSnapshot(revision=current, routes=self._reader.read(conn), limits=set_limits(conn))

    def endpoints(self, workload_id: str) -> list[Endpoint]:
        with self._db.read() as conn:
            return _endpoints(conn, workload_id)

    def all_endpoints(self) -> dict[str, list[Endpoint]]:
        """Endpoints by workload id."""
        found: dict[str, list[Endpoint]] = {}
        with self._db.read() as conn:
            for row in conn.execute(select(endpoints)).mappings():
                found.setdefault(row["workload_id"], []).append(Endpoint(**row))
        return found

    def set_endpoints(self, workload_id: str, wanted: Sequence[Endpoint]) -> None:
        """Writes only differences; without any, the revision stays. Raises NOT_FOUND when the workload is gone."""
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


def _values_of(item: Endpoint) -> dict[str, Any]:
    return {name: getattr(item, name) for name in endpoints.c.keys()}  # noqa: SIM118 - not a dict
