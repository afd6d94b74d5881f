"""A few connections per instance, opened on demand. libpq reads PGHOST, PGDATABASE and the like."""

import queue
from contextlib import contextmanager

import psycopg

TABLE = "terraform_demo_table"
MOST_CONNECTIONS = 4
"""Per service, so that all services together stay below PostgreSQL's limit of 100."""

_idle: "queue.LifoQueue[psycopg.Connection | None]" = queue.LifoQueue()
for _ in range(MOST_CONNECTIONS):
    _idle.put(None)


@contextmanager
def cursor():
    """A cursor in a new transaction. The next call replaces a broken connection."""
    connection = _idle.get()
    try:
        if connection is None or connection.closed:
            connection = psycopg.connect("", connect_timeout=5)
        with connection.transaction(), connection.cursor() as found:
            yield found
    except psycopg.OperationalError:
        if connection is not None:
            connection.close()
        connection = None
        raise
    finally:
        _idle.put(connection)


def escaped(text):
    """Escapes `%`, `_` and the escape character for LIKE."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
