"""Verdicts of a language model on code, and the code that operators have allowed. Implements `ports.VerdictStore`."""

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import delete, select

from sless import clock
from sless.domain.audit import Note
from sless.domain.code_check import AllowedCode, Finding, Opinion
from sless.store import audit, codec
from sless.store.engine import Database
from sless.store.operator_tables import allowed_code, code_verdicts


class CodeVerdictStore:
    def __init__(self, database: Database) -> None:
        self._db = database

    def find(self, sha256: str, prompt_key: str) -> Opinion | None:
        columns = code_verdicts.c
        with self._db.read() as conn:
            query = select(columns.opinion).where(columns.sha256 == sha256, columns.prompt_key == prompt_key)
            text = conn.execute(query).scalar_one_or_none()
        if text is None:
            return None
        values = codec.decode(text)
        found = tuple(Finding(**item) for item in values["findings"])
        return Opinion(**values | {"findings": found, "skipped": tuple(values.get("skipped", ()))})

    def keep(self, sha256: str, prompt_key: str, opinion: Opinion) -> None:
        values = {"sha256": sha256, "prompt_key": prompt_key, "opinion": codec.encode(asdict(opinion)), "at": clock.now()}
        with self._db.write() as conn:
            conn.execute(self._db.insert(code_verdicts).on_conflict_do_nothing(), values)

    def is_allowed(self, sha256: str) -> bool:
        with self._db.read() as conn:
            return conn.execute(select(allowed_code.c.sha256).where(allowed_code.c.sha256 == sha256)).first() is not None

    def allow(self, code: AllowedCode) -> None:
        values = {"sha256": code.sha256, "reason": code.reason, "at": clock.now()}
        insert = self._db.insert(allowed_code)
        with self._db.write() as conn:
            conn.execute(insert.on_conflict_do_update(index_elements=["sha256"], set_={"reason": insert.excluded.reason}), values)
            audit.note(conn, Note(namespace="", kind="code", name=code.sha256, verb="allow"))

    def disallow(self, sha256: str) -> bool:
        with self._db.write() as conn:
            done = conn.execute(delete(allowed_code).where(allowed_code.c.sha256 == sha256)).rowcount == 1
            if done:
                audit.note(conn, Note(namespace="", kind="code", name=sha256, verb="disallow"))
        return done

    def list_allowed(self, limit: int | None = None, after: str | None = None) -> list[AllowedCode]:
        """By content hash."""
        columns = allowed_code.c
        query = select(columns.sha256, columns.reason).order_by(columns.sha256).limit(limit)
        if after is not None:
            query = query.where(columns.sha256 > after)
        with self._db.read() as conn:
            rows = conn.execute(query)
            return [AllowedCode(sha256=row.sha256, reason=row.reason) for row in rows]

    def clean(self, before: datetime) -> int:
        with self._db.write() as conn:
            return conn.execute(delete(code_verdicts).where(code_verdicts.c.at < before)).rowcount
