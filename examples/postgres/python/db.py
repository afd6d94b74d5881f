"""A few connections per instance, opened when they are needed. libpq reads PGHOST, PGDATABASE and the like."""

import queue
from contextlib import contextmanager

import psycopg

TABLE = "terraform_demo_table"
MOST_CONNECTIONS = 4
"""Of each service: all of them together stay below PostgreSQL's 100."""

_idle: "queue.LifoQueue[psycopg.Connection | None]" = queue.LifoQueue()
for _ in range(MOST_CONNECTIONS):
    _idle.put(None)


@contextmanager
def cursor():
    """A cursor in a transaction of its own. A broken connection is replaced by the next call."""
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
    """For LIKE: `%`, `_` and the escape character itself stand for themselves."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
