"""All rows of a database as plain values, to write and restore backups.

Values are JSON values, so SQLite and PostgreSQL can read each other's: times are ISO 8601 text, all else is unchanged. Rows are loaded into
the schema of the version that wrote them, which is then migrated, all in one transaction.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy
from sqlalchemy import Boolean, Column, Connection, Float, Integer, String, Table, TableClause, func, inspect, select, text, update

from sless.errors import Code, ConfigError, SlessError
from sless.store import faults, migrate, revision
from sless.store.engine import Database
from sless.store.migrations import HEAD
from sless.store.schema import schema_of, sole_connection
from sless.store.sealed import key_ids
from sless.store.tables import metadata, versions
from sless.store.types import SecretText, UserText, UtcDateTime

_LEFT_OUT = frozenset({"demand", "tenant_use", "leases", "endpoints", "standing_instances", "reconcile_errors"})
"""Only valid while servers run: the leader, the instances, what loops had trouble with."""
_OF_EVERY_DATABASE = frozenset({"revisions", "meta"})
"""These have rows even in an unused database."""
_ROWS = 500
_TYPES: dict[str, Any] = {"time": UtcDateTime, "flag": Boolean, "int": sqlalchemy.BigInteger, "float": Float, "text": UserText}

Columns = dict[str, str]
"""Name → one of `_TYPES`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The database as of one moment; writers continue."""

    conn: Connection
    schema: str

    def tables(self) -> dict[str, Columns]:
        """Tables, parents before those that refer to them."""
        return {table.name: {item.name: _type_name(item) for item in table.columns} for table in _kept_tables()}

    def rows(self, table_name: str) -> Iterator[list[Any]]:
        """Secrets stay encrypted."""
        known = metadata.tables[table_name]
        table = _table_of(table_name, {item.name: _type_name(item) for item in known.columns})
        query = select(table).order_by(*(table.c[item.name] for item in known.primary_key.columns)).execution_options(yield_per=_ROWS)
        for row in self.conn.execute(query):
            yield [value.isoformat() if isinstance(value, datetime) else value for value in row]

    def encryption_keys(self) -> list[str]:
        """Ids of the keys that are needed to read the secrets."""
        return sorted(key_ids(self.conn))

    def code_keys(self) -> Iterator[str]:
        yield from self.conn.execute(select(versions.c.code_key).distinct().execution_options(yield_per=_ROWS)).scalars()


@contextmanager
def snapshot(database: Database) -> Iterator[Snapshot]:
    """Raises ConfigError unless the database has this version's schema."""
    with database.read() as conn:
        found, head = schema_of(conn), HEAD
        if found != head:
            raise ConfigError(
                f'the database has schema "{found or "none"}", this version of sless "{head}": '
                "back it up with the sless that serves it, or run `sless migrate` first"
            )
        yield Snapshot(conn, head)


def has_schema(database: Database) -> bool:
    """Whether the database has a schema, of any version."""
    with database.read() as conn:
        return inspect(conn).has_table(versions.name)


def code_keys(database: Database) -> set[str]:
    """Keys of all code that versions refer to."""
    with database.read() as conn:
        return set(conn.execute(select(versions.c.code_key)).scalars())


def is_empty(database: Database) -> bool:
    """Whether nothing was ever stored in the schema."""
    with database.read() as conn:
        known = set(inspect(conn).get_table_names())
        tables = [table for table in _kept_tables() if table.name in known and table.name not in _OF_EVERY_DATABASE]
        return all(conn.execute(select(text("1")).select_from(table).limit(1)).first() is None for table in tables)


class Loading:
    """Adds rows; see `loading`."""

    def __init__(self, conn: Connection, tables: dict[str, Columns]) -> None:
        self._conn = conn
        self._tables = {name: _table_of(name, columns) for name, columns in tables.items()}
        self._times = {name: [index for index, kind in enumerate(columns.values()) if kind == "time"] for name, columns in tables.items()}

    def add(self, table_name: str, rows: Iterable[list[Any]]) -> int:
        """Returns the number of rows."""
        table, times = self._tables[table_name], self._times[table_name]
        names = table.columns.keys()
        values = []
        for row in rows:
            for index in times:
                row[index] = datetime.fromisoformat(row[index]) if row[index] is not None else None
            values.append(dict(zip(names, row, strict=True)))
        if values:
            self._conn.execute(table.insert(), values)
        return len(values)


@contextmanager
def loading(database: Database, schema: str, tables: dict[str, Columns]) -> Iterator[Loading]:
    """Replaces all rows with those that the caller adds, in the schema in which they were written, then migrates. Uses one transaction, so
    an error leaves the database unchanged. Raises ConfigError for an unknown schema."""
    try:
        with sole_connection(database) as conn:
            migrate.refuse_unknown(schema)
            migrate.refuse_unknown(schema_of(conn))
            _drop_all(conn)
            migrate.upgrade_to(conn, schema)
            _clear(conn)
            yield Loading(conn, tables)
            migrate.upgrade_to(conn, "head")
            _set_sequences(conn)
            revision.bump(conn)
    except sqlalchemy.exc.IntegrityError as error:
        raise SlessError(Code.INTERNAL, f"the rows do not fit together: {error.orig}") from error
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise faults.fault_of(error) from error


def queue_builds(database: Database, version_ids: Iterable[str]) -> None:
    """Queues another build of ready versions whose artifact is missing on this machine. Active versions stay active."""
    with database.write() as conn:
        for version_id in version_ids:
            values = {"state": "queued", "claimed_by": None, "attempts": 0, "auto_activate": False, "ended_at": None}
            conn.execute(update(versions).where(versions.c.id == version_id, versions.c.state == "ready").values(values))
        revision.bump(conn)


def _kept_tables() -> list[Table]:
    return [table for table in metadata.sorted_tables if table.name not in _LEFT_OUT]


def _type_name(column: "Column[Any]") -> str:
    match column.type:
        case UtcDateTime():
            return "time"
        case Boolean():
            return "flag"
        case Integer():
            return "int"
        case Float():
            return "float"
        case UserText() | SecretText() | String():
            return "text"
    raise TypeError(f"column {column} has a type that backups do not know: {column.type!r}")


def _table_of(name: str, columns: Columns) -> TableClause:
    return sqlalchemy.table(name, *(sqlalchemy.column(item, _TYPES[kind]()) for item, kind in columns.items()))


def _drop_all(conn: Connection) -> None:
    """Drops only our tables: a database may hold others."""
    known = set(inspect(conn).get_table_names())
    ours = [name for name in (*(table.name for table in reversed(metadata.sorted_tables)), "alembic_version") if name in known]
    for name in ours:
        conn.execute(text(f"DROP TABLE {name}" + ("" if conn.dialect.name == "sqlite" else " CASCADE")))


def _clear(conn: Connection) -> None:
    """Deletes the rows that the migration itself creates."""
    for name in set(inspect(conn).get_table_names()) & _OF_EVERY_DATABASE:
        conn.execute(text(f"DELETE FROM {name}"))


def _set_sequences(conn: Connection) -> None:
    """PostgreSQL sequences do not follow inserted ids; SQLite's do."""
    if conn.dialect.name == "sqlite":
        return
    for table in metadata.sorted_tables:
        for column in table.primary_key.columns:
            if not isinstance(column.type, Integer) or table.autoincrement_column is not column:
                continue
            sequence = conn.execute(select(func.pg_get_serial_sequence(table.name, column.name))).scalar_one()
            if sequence is not None:
                following = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
                conn.execute(select(func.setval(sequence, following, False)))
