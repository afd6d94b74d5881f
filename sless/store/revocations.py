"""Revoked tokens, until they would have expired anyway."""

from datetime import datetime

from sqlalchemy import delete, select

from sless import clock
from sless.domain.audit import Note
from sless.domain.operators import RevokedToken, TimePlace
from sless.store import audit
from sless.store.engine import Database
from sless.store.operator_tables import revoked_tokens
from sless.store.queries import is_after


class RevocationStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, token: RevokedToken, namespace: str = "") -> bool:
        """False if it is already revoked. `namespace` is that of the token's tenant, "" if unknown."""
        values = {name: getattr(token, name) for name in revoked_tokens.c.keys()}  # noqa: SIM118 - not a dict
        with self._db.write() as conn:
            done = conn.execute(self._db.insert(revoked_tokens).on_conflict_do_nothing(), values).rowcount == 1
            if done:
                audit.note(conn, Note(namespace=namespace, kind="token", name=token.token_id, verb="revoke"))
        return done

    def list(self, limit: int | None = None, after: TimePlace | None = None) -> list[RevokedToken]:
        """Revoked tokens that have not expired, newest first."""
        columns = revoked_tokens.c
        query = select(revoked_tokens).where(columns.expires_at > clock.now(), is_after(after, columns.revoked_at, columns.token_id))
        with self._db.read() as conn:
            rows = conn.execute(query.order_by(columns.revoked_at.desc(), columns.token_id).limit(limit)).mappings()
            return [RevokedToken(**row) for row in rows]

    def ids(self) -> frozenset[str]:
        with self._db.read() as conn:
            return frozenset(conn.execute(select(revoked_tokens.c.token_id)).scalars())

    def clean(self, before: datetime) -> int:
        """Deletes tokens that expired before this time."""
        with self._db.write() as conn:
            return conn.execute(delete(revoked_tokens).where(revoked_tokens.c.expires_at < before)).rowcount
