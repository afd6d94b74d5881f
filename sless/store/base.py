"""What all tables share: their metadata and how constraints are named."""

from sqlalchemy import Index, MetaData, text

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def unique_where(name: str, columns: tuple[str, ...], where: str) -> Index:
    return Index(name, *columns, unique=True, sqlite_where=text(where), postgresql_where=text(where))
