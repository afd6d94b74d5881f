"""Translates errors of SQLAlchemy and of the drivers into SlessError.

The PostgreSQL driver is not imported: its errors are recognised by SQLSTATE, so a server on SQLite need not load it.
"""

import logging
import sqlite3

from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sless.errors import Code, SlessError

_log = logging.getLogger(__name__)

_SQLITE_MEANING = {
    sqlite3.SQLITE_BUSY: Code.UNAVAILABLE,
    sqlite3.SQLITE_LOCKED: Code.UNAVAILABLE,
    sqlite3.SQLITE_FULL: Code.STORAGE_FULL,
    sqlite3.SQLITE_IOERR: Code.UNAVAILABLE,
    sqlite3.SQLITE_CANTOPEN: Code.UNAVAILABLE,
    sqlite3.SQLITE_READONLY: Code.UNAVAILABLE,
    sqlite3.SQLITE_CORRUPT: Code.UNAVAILABLE,
    sqlite3.SQLITE_NOTADB: Code.UNAVAILABLE,
}
_BUSY_STATES = frozenset({"40001", "40P01", "55P03", "57014"})
"""Serialization failure, deadlock, lock time-out, statement time-out: a retry may succeed."""
_FULL_STATES = ("53100",)
_AWAY_CLASSES = ("08", "53", "57")
"""SQLSTATE classes: connection exception, insufficient resources, operator intervention."""


def is_unique_violation(error: IntegrityError) -> bool:
    if isinstance(error.orig, sqlite3.Error):
        return error.orig.sqlite_errorcode in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
    return _state_of(error) == "23505"


def is_missing_parent(error: IntegrityError) -> bool:
    if isinstance(error.orig, sqlite3.Error):
        return error.orig.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
    return _state_of(error) == "23503"


def fault_of(error: SQLAlchemyError) -> SlessError:
    """The error that users may see; the caller chains the original."""
    if isinstance(error, PoolTimeout):
        return _busy()
    fault = None
    if isinstance(error, DBAPIError):
        fault = _sqlite_fault(error.orig) if isinstance(error.orig, sqlite3.Error) else _postgres_fault(error)
    if fault is None:
        _log.error("the database refused an operation", exc_info=error)
        fault = SlessError(Code.INTERNAL, "the database refused the operation; the server's log says why")
    return fault


def _state_of(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


def _sqlite_fault(error: sqlite3.Error) -> SlessError | None:
    # Extended codes keep the primary one in their low byte.
    primary = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    match _SQLITE_MEANING.get(primary):
        case Code.STORAGE_FULL:
            return _full()
        case Code.UNAVAILABLE if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return _busy()
        case Code.UNAVAILABLE:
            return SlessError(Code.UNAVAILABLE, f"the database cannot be used: {error}", retry_after_sec=5)
    return None


def _postgres_fault(error: DBAPIError) -> SlessError | None:
    state = _state_of(error)
    if state in _FULL_STATES:
        return _full()
    if state in _BUSY_STATES:
        return _busy()
    # Without a SQLSTATE the server was not reached or the connection broke.
    if state[:2] in _AWAY_CLASSES or (not state and isinstance(error, OperationalError | InterfaceError)):
        return SlessError(Code.UNAVAILABLE, "the database cannot be reached", retry_after_sec=5)
    return None


def _busy() -> SlessError:
    return SlessError(Code.UNAVAILABLE, "the database is busy; try again", retry_after_sec=1)


def _full() -> SlessError:
    return SlessError(Code.STORAGE_FULL, "the disk of the database is full; nothing was stored")
