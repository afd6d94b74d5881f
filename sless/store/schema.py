"""Reads the schema's revision, and creates the newest schema in an empty database without Alembic: importing Alembic and running each
migration takes a third of a server's start.

SQLite: one BEGIN IMMEDIATE transaction, with foreign keys off (rebuilding a table would delete the rows that refer to it) and checked
before the commit. PostgreSQL: one transaction under an advisory lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from sless.errors import Code, SlessError
from sless.store import faults
from sless.store.engine import Database
from sless.store.migrations import HEAD
from sless.store.tables import metadata, revisions

_ADVISORY_KEY = 0x736C6573_73000001
_REVISIONS = ("routes", "triggers")


def schema_of(conn: Connection) -> str | None:
    """None: no schema yet."""
    if not inspect(conn).has_table("alembic_version"):
        return None
    return conn.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def create(database: Database) -> bool:
    """Creates the newest schema unless the database has tables of sless (it may hold others). Returns whether it did. Raises SlessError."""
    try:
        with sole_connection(database) as conn:
            return _create(conn)
    except SQLAlchemyError as error:
        raise faults.fault_of(error) from error


def _create(conn: Connection) -> bool:
    if {"alembic_version", *metadata.tables}.intersection(inspect(conn).get_table_names()):
        return False
    metadata.create_all(conn, checkfirst=False)
    conn.execute(revisions.insert(), [{"name": name, "value": 1} for name in _REVISIONS])
    columns = "version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)"  # as Alembic does
    conn.execute(text(f"CREATE TABLE alembic_version ({columns})"))
    conn.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
    return True


@contextmanager
def sole_connection(database: Database) -> Iterator[Connection]:
    """A transaction during which no other process migrates."""
    with database.engine.connect() as conn:
        if database.is_sqlite:
            with _foreign_keys_off(conn), conn.execution_options(sless_immediate=True).begin():
                yield conn
                broken = conn.execute(text("PRAGMA foreign_key_check")).all()
                if broken:
                    raise SlessError(
                        Code.INTERNAL, f"the migration would leave {len(broken)} rows without their parent row: nothing was changed"
                    )
        else:
            with conn.begin():
                # Migrations may take longer than the limits of a request's statement.
                conn.execute(text("SET LOCAL lock_timeout = '120s'"))
                conn.execute(text("SET LOCAL statement_timeout = 0"))
                conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_KEY})
                yield conn


@contextmanager
def _foreign_keys_off(conn: Connection) -> Iterator[None]:
    """The pragma has no effect inside a transaction, so it is executed before one begins."""
    driver = conn.connection.dbapi_connection
    assert driver is not None
    driver.execute("PRAGMA foreign_keys=OFF")
    try:
        yield
    finally:
        driver.execute("PRAGMA foreign_keys=ON")
