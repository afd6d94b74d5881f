"""URLs of callbacks and notices are secrets, as they may contain a key. The next start encrypts stored ones."""

from alembic import op

from sless.store.migrations.v0001_history import KEY

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table, column in (("runs", "callback_url"), ("callbacks", "url"), ("notices", "url"), ("tenants", "notify_url")):
        if op.get_bind().dialect.name == "postgresql":
            op.alter_column(table, column, type_=KEY)
        op.execute(f"UPDATE {table} SET {column} = 'plain:' || {column} WHERE {column} IS NOT NULL")
