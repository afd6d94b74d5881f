"""One counter that grows with every change of what is served, so that a poll for routes costs one row.

On PostgreSQL the update holds the row until the transaction ends: transactions that bump commit one after the other, in the order of their
numbers, and whoever reads number N sees everything up to N. So `bump` is the last statement of a transaction, which also keeps it free of
deadlocks.
"""

from sqlalchemy import Connection, select, update

from sless.store.tables import revisions

_ROUTES = "routes"


def bump(conn: Connection) -> None:
    conn.execute(update(revisions).where(revisions.c.name == _ROUTES).values(value=revisions.c.value + 1))


def current(conn: Connection) -> int:
    return int(conn.execute(select(revisions.c.value).where(revisions.c.name == _ROUTES)).scalar_one())
