"""Change counters, one for routes and one for triggers, so that polling for changes reads a single row.

On PostgreSQL the update locks the row until the transaction ends: transactions that bump commit one after the other in the order of their
numbers, and a reader of number N sees everything up to N. So `bump` is the last statement of a transaction, which also avoids deadlocks; if
both counters grow, `triggers` comes first.
"""

from sqlalchemy import Connection, select, update

from sless.store import signals
from sless.store.tables import revisions

ROUTES = "routes"
TRIGGERS = "triggers"


def bump(conn: Connection, name: str = ROUTES) -> None:
    conn.execute(update(revisions).where(revisions.c.name == name).values(value=revisions.c.value + 1))
    if name == ROUTES:
        signals.send(conn, signals.ROUTES)


def current(conn: Connection, name: str = ROUTES) -> int:
    return int(conn.execute(select(revisions.c.value).where(revisions.c.name == name)).scalar_one())
