"""Connection pool and transactions, set up so that SQLite and PostgreSQL behave alike.

SQLite: WAL; reads BEGIN (a snapshot, never waits), writes BEGIN IMMEDIATE (take the lock first: a deferred transaction that turns
into a writer fails immediately if another one has written). `synchronous=FULL`, because what was accepted must survive a power cut.
PostgreSQL: reads are REPEATABLE READ, READ ONLY (one snapshot for several queries), writes READ COMMITTED with explicit row locks.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from sless.errors import ConfigError, SlessError
from sless.store import faults

BUSY_TIMEOUT_SEC = 5
_IMMEDIATE = "sless_immediate"
_AFTER = "sless_after_commit"
_POOL = {"pool_size": 10, "max_overflow": 20, "pool_timeout": 10}

Taken = Callable[[str], SlessError]
"""Maps the driver's text of a unique violation (which names columns or index) to the error for users."""


class Database:
    """Short transactions on one database. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        # Threads of this process queue here before they ask SQLite for its lock: SQLite makes waiters sleep up to 0.1 s and retry, so
        # later ones could overtake them forever. Other processes (a migration, a backup) have to wait SQLite's way.
        self._turn: AbstractContextManager[object] = threading.Lock() if self.is_sqlite else nullcontext()
        self._reader: Engine
        self._writer: Engine
        if self.is_sqlite:
            self._reader, self._writer = engine, engine.execution_options(**{_IMMEDIATE: True})
        else:
            self._reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            self._writer = engine

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent snapshot. Raises SlessError."""
        try:
            with self._reader.connect() as conn, conn.begin():
                yield conn
        except SQLAlchemyError as error:
            raise faults.fault_of(error) from error

    @contextmanager
    def write(self, *, taken: Taken | None = None, gone: SlessError | None = None) -> Iterator[Connection]:
        """One transaction, committed at the end. `taken` makes the error for a unique violation, `gone` is raised for a missing parent."""
        after: list[Callable[[], None]] = []
        try:
            with self._turn, self._writer.begin() as conn:
                yield conn.execution_options(**{_AFTER: after})
        except IntegrityError as error:
            if taken is not None and faults.is_unique_violation(error):
                raise taken(str(error.orig)) from error
            if gone is not None and faults.is_missing_parent(error):
                raise gone from error
            raise faults.fault_of(error) from error
        except SQLAlchemyError as error:
            raise faults.fault_of(error) from error
        for call in after:
            call()

    def insert(self, table: Table) -> Any:
        """INSERT of the dialect; both have `on_conflict_do_nothing` and `on_conflict_do_update`."""
        statement = sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)
        # Else SQLAlchemy drops the row count of an INSERT on PostgreSQL.
        return statement.execution_options(preserve_rowcount=True)

    def close(self) -> None:
        self.engine.dispose()


def after_commit(conn: Connection, call: Callable[[], None]) -> None:
    """Calls `call` once the transaction of `Database.write` has been committed; never if it is not."""
    conn.get_execution_options()[_AFTER].append(call)


def open_database(database_url: str, durable: bool = True) -> Database:
    """Does not connect to PostgreSQL before the first use; creates the file of a SQLite database. Raises ConfigError."""
    url = url_of(database_url)
    if url.get_backend_name() == "sqlite":
        return Database(_sqlite_engine(url, durable))
    return Database(_postgres_engine(url))


def url_of(database_url: str) -> URL:
    """Accepts `sqlite:///path`, `postgres://…` and `postgresql://…`. Errors do not repeat the URL, which may hold a password."""
    try:
        url = make_url(database_url)
    except ArgumentError as error:
        raise ConfigError("SLESS_DATABASE_URL: expected sqlite:///path/to/file or postgresql://user:password@host/name") from error
    match url.drivername:
        case "postgres" | "postgresql" | "postgresql+psycopg":
            return url.set(drivername="postgresql+psycopg")
        case "sqlite" if url.database and url.database != ":memory:":
            return url
        case "sqlite":
            raise ConfigError("SLESS_DATABASE_URL: SQLite needs a file, such as sqlite:////var/lib/sless/sless.db")
    raise ConfigError(f'SLESS_DATABASE_URL: expected sqlite or postgresql, found "{url.drivername}"')


def sqlite_url_of(path: Path) -> str:
    """A URL for this file, with special characters escaped."""
    return URL.create("sqlite", database=str(path)).render_as_string()


def _sqlite_engine(url: URL, durable: bool) -> Engine:
    _ensure_private_file(Path(str(url.database)))
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SEC}, **_POOL)

    @event.listens_for(engine, "connect")
    def on_connect(connection: sqlite3.Connection, _record: object) -> None:
        # None: the driver starts no transactions by itself; `on_begin` does.
        connection.isolation_level = None
        _ensure_wal(connection)
        for pragma in ("foreign_keys=ON", f"synchronous={'FULL' if durable else 'OFF'}", "journal_size_limit=67108864"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def on_begin(conn: Connection) -> None:
        conn.exec_driver_sql("BEGIN IMMEDIATE" if conn.get_execution_options().get(_IMMEDIATE) else "BEGIN")

    return engine


def _ensure_private_file(path: Path) -> None:
    """The file holds secrets, so only its owner may read it; SQLite gives its companion files the same mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise ConfigError(f"SLESS_DATABASE_URL: cannot open the database file {path}: {error.strerror}") from error


def _ensure_wal(connection: sqlite3.Connection) -> None:
    """The switch to WAL ignores the busy time-out, so two processes that start at the same time need this loop."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SEC
    while True:
        try:
            if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal":
                return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        else:
            if time.monotonic() > deadline:
                raise sqlite3.OperationalError("the file system of the database does not support write-ahead logging")
        time.sleep(0.01)


def _postgres_engine(url: URL) -> Engine:
    arguments = {"connect_timeout": BUSY_TIMEOUT_SEC, "application_name": "sless"}
    engine = create_engine(url, connect_args=arguments, pool_pre_ping=True, **_POOL)

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{BUSY_TIMEOUT_SEC}s'")
            cursor.execute("SET statement_timeout = '30s'")
            cursor.execute("SET timezone = 'UTC'")
        connection.commit()

    return engine
