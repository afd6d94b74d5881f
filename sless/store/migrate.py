"""Brings the database to the schema of this version; safe when several processes start at the same time."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from sless.errors import ConfigError
from sless.store import faults, migrations
from sless.store.engine import Database
from sless.store.schema import schema_of, sole_connection


def upgrade(database: Database) -> None:
    """Raises ConfigError when the schema is newer than this version of sless knows."""
    try:
        with sole_connection(database) as conn:
            found = schema_of(conn)
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
