"""Brings the database to the schema of this version; safe when several processes start at the same time.

SQLite: one BEGIN IMMEDIATE transaction, with foreign keys off (rebuilding a table would delete the rows that refer to it) and checked
before the commit. PostgreSQL: one transaction under an advisory lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from sless.errors import Code, ConfigError, SlessError
from sless.store import faults, migrations
from sless.store.engine import Database

_ADVISORY_KEY = 0x736C6573_73000001


def upgrade(database: Database) -> None:
    """Raises ConfigError when the schema is newer than this version of sless knows."""
    try:
        with sole_connection(database) as conn:
            found = MigrationContext.configure(conn).get_current_revision()
            refuse_unknown(found)
            if found != head():
                upgrade_to(conn, "head")
    except SQLAlchemyError as error:
        raise faults.fault_of(error) from error


def head() -> str:
    """The newest schema that this version of sless knows."""
    found = ScriptDirectory.from_config(_config()).get_current_head()
    assert found is not None
    return found


def upgrade_to(conn: Connection, schema: str) -> None:
    """Migrates on a `sole_connection`."""
    config = _config()
    config.attributes["connection"] = conn
    command.upgrade(config, schema)


def _config() -> Config:
    config = Config()
    # A percent sign is Alembic's interpolation.
    config.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    return config


def refuse_unknown(found: str | None) -> None:
    """Raises ConfigError for a schema that this version does not know."""
    script = ScriptDirectory.from_config(_config())
    known = {item.revision for item in script.walk_revisions()}
    if found is not None and found not in known:
        raise ConfigError(
            f'the database has schema "{found}", this version of sless knows up to "{script.get_current_head()}": '
            "start a newer sless, or give SLESS_DATABASE_URL another database"
        )


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
