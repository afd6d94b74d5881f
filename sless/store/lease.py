"""Leases: at most one holder per name; a holder that does not renew in time loses it.

On PostgreSQL, the time is that of the database, so that replicas with different clocks agree on what has expired.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, Connection, delete, exists, func, or_, select

from sless import clock
from sless.store.engine import Database
from sless.store.tables import leases

ReadTime = Callable[[Connection], datetime]


class LeaseStore:
    def __init__(self, database: Database, read_time: ReadTime | None = None) -> None:
        self._db = database
        self._read_time = read_time or database_time

    def acquire(self, name: str, holder: str, ttl_sec: float) -> bool:
        """Takes a free or expired lease, or renews the holder's own. Returns whether it is held."""
        with self._db.write() as conn:
            now = self._read_time(conn)
            insert = self._db.insert(leases).values(name=name, holder=holder, expires_at=now + timedelta(seconds=ttl_sec))
            fresh = insert.excluded
            done = conn.execute(
                insert.on_conflict_do_update(
                    index_elements=[leases.c.name],
                    set_={"holder": fresh.holder, "expires_at": fresh.expires_at},
                    where=or_(leases.c.holder == fresh.holder, leases.c.expires_at <= now),
                )
            )
            return done.rowcount == 1

    def release(self, name: str, holder: str) -> None:
        """Does nothing unless `holder` holds it."""
        with self._db.write() as conn:
            conn.execute(delete(leases).where(leases.c.name == name, leases.c.holder == holder))

    def holder(self, name: str) -> str | None:
        """None when the lease is free or has expired."""
        with self._db.read() as conn:
            query = select(leases.c.holder).where(leases.c.name == name, leases.c.expires_at > self._read_time(conn))
            return conn.execute(query).scalar_one_or_none()


def database_time(conn: Connection) -> datetime:
    if conn.dialect.name == "sqlite":
        return clock.now()
    moment: datetime = conn.execute(select(func.clock_timestamp())).scalar_one()
    return moment.astimezone(UTC)


def is_alive(holder: ColumnElement[str], now: datetime) -> ColumnElement[bool]:
    """SQL: the holder has any lease that has not expired."""
    return exists(select(leases.c.name).where(leases.c.holder == holder, leases.c.expires_at > now))
