"""Counters that grow with every change: of what is served, so that a poll for routes costs one row, and of triggers.

On PostgreSQL the update holds the row until the transaction ends: transactions that bump commit one after the other, in the order of their
numbers, and whoever reads number N sees everything up to N. So `bump` is the last statement of a transaction, which also keeps it free of
deadlocks; where both grow, `triggers` comes first.
"""

from sqlalchemy import Connection, select, update

from sless.store.tables import revisions

ROUTES = "routes"
TRIGGERS = "triggers"


def bump(conn: Connection, name: str = ROUTES) -> None:
    conn.execute(update(revisions).where(revisions.c.name == name).values(value=revisions.c.value + 1))


def current(conn: Connection, name: str = ROUTES) -> int:
    return int(conn.execute(select(revisions.c.value).where(revisions.c.name == name)).scalar_one())
