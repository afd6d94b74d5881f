"""Notes in PostgreSQL if DATABASE_URL or PGHOST is set, else in an SQLite file. One connection per call, so none is ever stale."""

import contextlib
import os
import sqlite3
from pathlib import Path

COLUMNS = "id, title, text, updated_at"


class Notes:
    def __init__(self):
        self._postgres = bool(os.environ.get("DATABASE_URL") or os.environ.get("PGHOST"))
        self._file = os.environ.get("NOTES_DB") or str(Path(__file__).with_name("notes.db"))
        key = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY" if self._postgres else "INTEGER PRIMARY KEY AUTOINCREMENT"
        moment = "TIMESTAMPTZ" if self._postgres else "TEXT"
        self._run(f"CREATE TABLE IF NOT EXISTS notes (id {key}, title TEXT NOT NULL, text TEXT NOT NULL, updated_at {moment} NOT NULL)")

    def all(self, word):
        """Newest first; title or text contains `word`."""
        like = "%" + word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        where = "lower(title) LIKE lower(?) ESCAPE '\\' OR lower(text) LIKE lower(?) ESCAPE '\\'"
        return self._run(f"SELECT {COLUMNS} FROM notes WHERE {where} ORDER BY id DESC", like, like)

    def find(self, note_id):
        return self._one(f"SELECT {COLUMNS} FROM notes WHERE id = ?", note_id)

    def add(self, note):
        return self._one(
            f"INSERT INTO notes (title, text, updated_at) VALUES (?, ?, CURRENT_TIMESTAMP) RETURNING {COLUMNS}", note["title"], note["text"]
        )

    def replace(self, note_id, note):
        return self._one(
            f"UPDATE notes SET title = ?, text = ?, updated_at = CURRENT_TIMESTAMP WHERE id = ? RETURNING {COLUMNS}",
            note["title"], note["text"], note_id,
        )  # fmt: skip

    def remove(self, note_id):
        return self._one("DELETE FROM notes WHERE id = ? RETURNING id", note_id) is not None

    def _one(self, sql, *values):
        return next(iter(self._run(sql, *values)), None)

    def _run(self, sql, *values):
        """Runs one statement in a transaction; returns rows as dicts."""
        with self._connected() as connection, connection:
            cursor = connection.execute(sql.replace("?", "%s") if self._postgres and values else sql, values)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else []

    def _connected(self):
        if self._postgres:
            import psycopg

            return contextlib.closing(psycopg.connect(os.environ.get("DATABASE_URL", "")))  # "": PGHOST, PGUSER and so on
        return contextlib.closing(sqlite3.connect(self._file, timeout=10))
