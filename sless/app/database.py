"""Finds and migrates the database, claims it for this server with a local backend, and replaces its encryption key."""

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from sless import ids
from sless.app.encryption import KeyFile, ensure_keys, key_source_of, location_of
from sless.config import Settings
from sless.domain.audit import installation_note, value_change
from sless.domain.durations import Durations
from sless.errors import ConfigError, SlessError
from sless.reconcile.leader import LEASE
from sless.store import Keyring, Store, open_store, sqlite_url_of

_log = logging.getLogger(__name__)

HOLDER_FILE = "holder"
_AGAIN_SEC = 1.0
_GRACE_SEC = 2.0


def database_url_of(settings: Settings) -> str:
    """Raises ConfigError."""
    check_locale(settings.data_dir)
    return settings.database_url or sqlite_url_of(settings.data_dir / "sless.db")


def open_encrypted(settings: Settings, *, holder: str | None = None) -> Store:
    """Opens the store with its keys. Raises ConfigError if they are missing."""
    return open_store(database_url_of(settings), holder=holder, keyring=Keyring(key_source_of(settings)))


def check_locale(folder: Path) -> None:
    """Under a locale without UTF-8, Python represents other characters in a way that databases and URLs cannot hold. Raises ConfigError."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(folder).decode(errors="replace")
        raise ConfigError(
            f"SLESS_DATA_DIR: this locale cannot name {shown}: set LC_ALL=C.UTF-8 or PYTHONUTF8=1, or use another folder"
        ) from None


def migrate(settings: Settings) -> None:
    """Brings the database to this version's schema and encrypts secrets stored in plain text; creates the encryption key on first start.
    Raises ConfigError if the schema is newer, the key is missing or wrong, or the database cannot be reached."""
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = open_store(database_url_of(settings))
    try:
        store.migrate()
        source = ensure_keys(settings, store)
    except SlessError as error:
        # Include the reason, which API errors omit: operators may see it.
        reason = str(error.__cause__ or "no reason given").splitlines()[0]
        raise ConfigError(f"SLESS_DATABASE_URL: {error.message}: {reason}") from error
    finally:
        store.close()
    store = open_store(database_url_of(settings), keyring=Keyring(source))
    try:
        store.sealed.check(location_of(source))
        if encrypted := store.sealed.encrypt_plain():
            _log.info("encrypted %d secrets that were stored plain", encrypted)
    finally:
        store.close()


def find_only_sub(settings: Settings) -> str | None:
    """The subject of the tenant, if the installation has exactly one. The database must have the current schema."""
    store = open_encrypted(settings)
    try:
        subs = [tenant.sub for tenant in store.tenants.list(limit=3) if tenant.sub]
    finally:
        store.close()
    return subs[0] if len(subs) == 1 else None


def claim(settings: Settings, durations: Durations | None = None) -> None:
    """Ensures that no other server uses the database with a local backend, which runs functions on this machine from this data folder.
    Waits for the lease of a killed server to expire. Raises ConfigError if another server is alive."""
    if settings.backend != "local":
        return
    store, holder = open_store(database_url_of(settings)), holder_of(settings.data_dir)
    lease_sec = (durations or Durations()).lease_sec
    deadline = time.monotonic() + lease_sec + _GRACE_SEC
    try:
        waiting = False
        while not store.leases.acquire(LEASE, holder, lease_sec):
            if time.monotonic() >= deadline:
                text = f"another server uses this database (holder {store.leases.holder(LEASE)}, this one is {holder})"
                raise ConfigError(f"SLESS_DATABASE_URL: {text}; SLESS_BACKEND=local allows one: stop the other server")
            if not waiting:
                _log.warning("another server holds this database; waiting up to %d s in case it was killed", lease_sec + _GRACE_SEC)
            waiting = True
            time.sleep(_AGAIN_SEC)
    finally:
        store.close()


def holder_of(data_dir: Path) -> str:
    """The name of this data folder among replicas, created once (see `reconcile.leader`)."""
    path = data_dir / HOLDER_FILE
    if path.exists() and (known := path.read_text().strip()):
        return known
    path.touch(mode=0o600)
    path.write_text(holder := ids.new_id())
    return holder


def rotate(settings: Settings, report: Callable[[str], None]) -> None:
    """Encrypts all secrets with the newest key. A key file gets a new key first, unless an earlier rotation was interrupted."""
    source = key_source_of(settings)
    store = open_encrypted(settings)
    try:
        store.check_schema()
        store.sealed.check(location_of(source))
        if isinstance(source, KeyFile) and store.sealed.is_rotated():
            source.add()
            report(f"Added a new key to {source.path}")
        done = 0
        while True:
            done += store.sealed.rotate(lambda at, total: report(f"{at} of {total} values"))
            # A server may have stored another value with an older key in the meantime.
            if store.sealed.is_rotated():
                break
        store.audit.add(installation_note("rotate_keys", value_change("encrypted", None, done)))
        report(f"Encrypted {done} values with key {store.sealed.newest_id}; older keys are only needed for backups made before")
    finally:
        store.close()
