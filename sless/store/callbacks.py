"""Callbacks to deliver, and the keys that sign them. The end of a run writes the row (`run_moves`)."""

import secrets

from sqlalchemy import RowMapping, select, update

from sless import clock
from sless.clock import parse_rfc3339
from sless.domain.audit import Note
from sless.domain.callback import Callback, CallbackKey, CallbackStatus
from sless.errors import NotFound
from sless.store import audit, codec
from sless.store.deliveries import DeliveryStore
from sless.store.engine import Database
from sless.store.tables import callbacks, tenants

_KEYS_KEPT = 2


class CallbackStore(DeliveryStore[Callback]):
    def __init__(self, database: Database) -> None:
        super().__init__(database, callbacks, _callback_of)

    def find(self, run_id: str) -> Callback | None:
        return next(iter(self._all(select(callbacks).where(callbacks.c.run_id == run_id))), None)

    def keys(self, namespace: str) -> list[CallbackKey]:
        """Newest first; the first key is created on demand. Raises NOT_FOUND for a namespace without a row."""
        with self._db.read() as conn:
            text = conn.execute(select(tenants.c.callback_keys).where(tenants.c.namespace == namespace)).scalar_one_or_none()
        return _keys_of(text) if text else self._add_key(namespace, only_first=True)

    def rotate_key(self, namespace: str) -> list[CallbackKey]:
        """Puts a new key first. Raises NOT_FOUND for a namespace without a row."""
        return self._add_key(namespace, only_first=False)

    def _add_key(self, namespace: str, *, only_first: bool) -> list[CallbackKey]:
        with self._db.write() as conn:
            row = conn.execute(select(tenants.c.callback_keys).where(tenants.c.namespace == namespace).with_for_update()).one_or_none()
            if row is None:
                raise NotFound("namespace", namespace)
            keys = _keys_of(row[0]) if row[0] else []
            if keys and only_first:
                return keys
            keys = [CallbackKey(secret=secrets.token_hex(32), created_at=clock.now()), *keys][:_KEYS_KEPT]
            conn.execute(update(tenants).where(tenants.c.namespace == namespace).values(callback_keys=_text_of(keys)))
            if not only_first:
                audit.note(conn, Note(namespace=namespace, kind="callback_key", name=namespace, verb="rotate"))
            return keys


def _callback_of(row: RowMapping) -> Callback:
    return Callback(**{**row, "status": CallbackStatus(row["status"])})


def _keys_of(text: str) -> list[CallbackKey]:
    return [CallbackKey(secret=item["secret"], created_at=parse_rfc3339(item["created_at"])) for item in codec.decode(text)["keys"]]


def _text_of(keys: list[CallbackKey]) -> str:
    return codec.encode({"keys": [{"secret": key.secret, "created_at": key.created_at.isoformat()} for key in keys]})
