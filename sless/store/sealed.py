"""All encrypted columns together: finds the keys that they need, and encrypts them with a new one.

A rewrite uses small transactions and changes a row only if it still has the value that was read. So servers may keep writing, and the next
rewrite continues one that was interrupted.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import Column, ColumnElement, Connection, Text, and_, func, not_, select, text, type_coerce, update

from sless.errors import ConfigError
from sless.store.engine import Database
from sless.store.keyring import FERNET, PLAIN, TAG_CHARS, Keyring, key_id_of
from sless.store.types import SecretText, metadata

_BATCH = 200

Progress = Callable[[int, int], None]
"""Takes (rewritten, total) rows."""


class SealedStore:
    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._db = database
        self._keyring = keyring

    @property
    def newest_id(self) -> str:
        return self._keyring.ids[0]

    def key_ids(self) -> set[str]:
        """Keys that stored values are encrypted with."""
        with self._db.read() as conn:
            return key_ids(conn)

    def check(self, place: str) -> None:
        """Raises ConfigError if stored values need a missing key. `place` names the source of the keys in the error."""
        self.check_keys("the database", self.key_ids(), place)

    def check_keys(self, what: str, needed: Iterable[str], place: str) -> None:
        """Raises ConfigError if one of the `needed` keys is missing. `what` names in the error what needs them."""
        if missing := sorted(set(needed) - set(self._keyring.ids)):
            have = f"{place} has {', '.join(self._keyring.ids)}" if self._keyring.ids else f"{place} has none"
            raise ConfigError(f"SLESS_ENCRYPTION_KEYS: {what} is encrypted with key {', '.join(missing)}, but {have}: add the missing key")

    def encrypt_plain(self) -> int:
        """Encrypts values stored before there was a key. Returns their number."""
        return self._rewrite(lambda column: column.startswith(PLAIN, autoescape=True), None) if self._keyring.ids else 0

    def rotate(self, progress: Progress | None = None) -> int:
        """Encrypts all values of older keys with the newest one. Returns their number."""
        prefix = self._keyring.newest_prefix
        return self._rewrite(lambda column: not_(column.startswith(prefix, autoescape=True)), progress)

    def is_rotated(self) -> bool:
        """Whether all values are encrypted with the newest key."""
        return self.key_ids() <= set(self._keyring.ids[:1])

    def _rewrite(self, is_due: "Callable[[Column[str]], ColumnElement[bool]]", progress: Progress | None) -> int:
        due = [_Due(column=column, where=and_(column.is_not(None), is_due(_raw(column)))) for column in sealed_columns()]
        total, done = sum(self._count(item) for item in due), 0
        for item in due if total else ():
            while changed := self._rewrite_batch(item):
                done += changed
                if progress is not None:
                    progress(done, max(total, done))
        if total:
            self._forget_old_values()
        return done

    def _count(self, due: "_Due") -> int:
        with self._db.read() as conn:
            return conn.execute(select(func.count()).select_from(due.column.table).where(due.where)).scalar_one()

    def _rewrite_batch(self, due: "_Due") -> int:
        """Returns the number of rows examined; 0 if none is left."""
        (key,) = due.column.table.primary_key.columns
        raw = _raw(due.column)
        with self._db.read() as conn:
            rows = conn.execute(select(key, raw).where(due.where).order_by(key).limit(_BATCH)).all()
        anew = [(row_id, stored, self._keyring.seal(self._keyring.open(stored))) for row_id, stored in rows]
        with self._db.write() as conn:
            _overwrite_deleted(self._db, conn)
            for row_id, stored, fresh in anew:
                same = and_(key == row_id, raw == stored)
                conn.execute(update(due.column.table).where(same).values({due.column: type_coerce(fresh, Text)}))
        return len(rows)

    def _forget_old_values(self) -> None:
        """Truncates SQLite's log, which still holds old pages. PostgreSQL reuses the space of old rows in time."""
        if self._db.is_sqlite:
            with self._db.engine.connect() as conn:
                driver = conn.connection.dbapi_connection
                assert driver is not None
                # This must run outside a transaction, so not through SQLAlchemy. Open readers may prevent a complete truncation.
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    column: "Column[str]"
    where: ColumnElement[bool]


def key_ids(conn: Connection) -> set[str]:
    found: set[str] = set()
    for column in sealed_columns():
        raw = _raw(column)
        tags = select(func.substr(raw, 1, TAG_CHARS)).distinct().where(raw.startswith(FERNET, autoescape=True))
        found.update(map(key_id_of, conn.execute(tags).scalars()))
    return found


def sealed_columns() -> "Iterator[Column[str]]":
    for table in metadata.sorted_tables:
        for column in table.columns:
            if isinstance(column.type, SecretText):
                yield column


def _raw(column: "Column[str]") -> "Column[str]":
    """The column as stored."""
    return type_coerce(column, Text)  # type: ignore[return-value]  # used as a column is


def _overwrite_deleted(database: Database, conn: Connection) -> None:
    if database.is_sqlite:
        conn.execute(text("PRAGMA secure_delete=ON"))
