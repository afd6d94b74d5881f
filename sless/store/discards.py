"""Artifacts of removed versions: recorded in the transaction that removes the version, deleted by the clean-up later."""

from sqlalchemy import ColumnElement, Connection, delete, exists, select

from sless.store.engine import Database
from sless.store.tables import discards, versions


def add(database: Database, conn: Connection, where: ColumnElement[bool]) -> None:
    """Records the artifacts of the versions that are about to be removed."""
    artifacts = select(versions.c.artifact).where(where, versions.c.artifact != "").distinct()
    conn.execute(database.insert(discards).from_select(["artifact"], artifacts).on_conflict_do_nothing())


class DiscardStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def list(self, limit: int) -> list[str]:
        """Artifacts that no version uses."""
        used = exists().where(versions.c.artifact == discards.c.artifact)
        query = select(discards.c.artifact).where(~used).order_by(discards.c.artifact).limit(limit)
        with self._db.read() as conn:
            return [str(artifact) for artifact in conn.execute(query).scalars()]

    def is_used(self, artifact: str) -> bool:
        with self._db.read() as conn:
            return bool(conn.execute(select(exists().where(versions.c.artifact == artifact))).scalar_one())

    def remove(self, artifact: str) -> None:
        with self._db.write() as conn:
            conn.execute(delete(discards).where(discards.c.artifact == artifact))
