"""Column types that behave the same on SQLite and PostgreSQL, and the metadata that all tables share."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, DateTime, Dialect, ForeignKey, Index, Integer, MetaData, Text, text
from sqlalchemy.types import TypeDecorator, TypeEngine

from sless.store.keyring import keyring_of

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

KeyText = Text().with_variant(Text(collation="C"), "postgresql")
"""Ids, names, enumerations, JSON: compared byte by byte, so both databases sort alike whatever the server's locale."""


class UtcDateTime(TypeDecorator[datetime]):
    """Aware datetimes in, aware UTC datetimes out. SQLite stores naive UTC text of fixed width, which sorts; PostgreSQL timestamptz."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without a zone cannot be stored: {value!r}")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class UserText(TypeDecorator[str]):
    """Text from users or functions. PostgreSQL cannot store NUL, neither database a lone surrogate: both become U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class SecretText(TypeDecorator[str]):
    """ASCII text that is encrypted with the keyring attached to the engine, see `keyring`."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(KeyText)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else keyring_of(dialect).seal(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else keyring_of(dialect).open(value)


def storable(value: str) -> str:
    if "\0" in value:
        value = value.replace("\0", "\ufffd")
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def unique_where(name: str, columns: tuple[str, ...], where: str) -> Index:
    return Index(name, *columns, unique=True, sqlite_where=text(where), postgresql_where=text(where))


def delivery_columns(key: str, *of_key: ForeignKey) -> list[Column[Any]]:
    """The columns of `domain.callback.Delivery`, and the primary key."""
    return [
        Column(key, KeyText, *of_key, primary_key=True),
        Column("namespace", KeyText, nullable=False),
        Column("url", SecretText, nullable=False),
        Column("status", KeyText, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("not_before", UtcDateTime, nullable=False),
        Column("http_status", Integer),
        Column("error", UserText),
        Column("created_at", UtcDateTime, nullable=False),
        Column("ended_at", UtcDateTime),
    ]
