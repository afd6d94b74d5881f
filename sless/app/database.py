"""Which database, and its schema brought up to date."""

from sless.config import Settings
from sless.errors import ConfigError, SlessError
from sless.store import open_store, sqlite_url_of


def database_url_of(settings: Settings) -> str:
    return settings.database_url or sqlite_url_of(settings.data_dir / "sless.db")


def migrate(settings: Settings) -> None:
    """Brings the database to this version's schema. Raises ConfigError when it is newer, or cannot be reached."""
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = open_store(database_url_of(settings))
    try:
        store.migrate()
    except SlessError as error:
        # Who starts the server may know where its database is, and why it does not answer; callers of the API may not.
        reason = str(error.__cause__ or "no reason given").splitlines()[0]
        raise ConfigError(f"SLESS_DATABASE_URL: {error.message}: {reason}") from error
    finally:
        store.close()
