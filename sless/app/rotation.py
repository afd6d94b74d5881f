"""Encrypts all secrets in the database with a new key, while servers run."""

from collections.abc import Callable

from sless.app.database import open_encrypted
from sless.app.encryption import KeyFile, key_source_of, place_of
from sless.config import Settings
from sless.domain.audit import installation_note, value_change

Tell = Callable[[str], None]


def rotate(settings: Settings, tell: Tell) -> None:
    """Encrypts all secrets with the newest key. A key file gets a new key first, unless an earlier rotation was interrupted."""
    source = key_source_of(settings)
    store = open_encrypted(settings)
    try:
        store.check_schema()
        store.sealed.check(place_of(source))
        if isinstance(source, KeyFile) and store.sealed.is_rotated():
            source.add()
            tell(f"Added a new key to {source.path}")
        done = 0
        while True:
            done += store.sealed.rotate(lambda at, total: tell(f"{at} of {total} values"))
            # A server may have stored another value with an older key in the meantime.
            if store.sealed.is_rotated():
                break
        store.audit.add(installation_note("rotate_keys", value_change("encrypted", None, done)))
        tell(f"Encrypted {done} values with key {store.sealed.newest_id}; older keys are only needed for backups made before")
    finally:
        store.close()
