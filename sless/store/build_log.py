"""The log of a build, line by line."""

from collections.abc import Sequence

from sqlalchemy import func, select

from sless.store.engine import Database
from sless.store.tables import build_logs, versions


class BuildLog:
    def __init__(self, database: Database) -> None:
        self._db = database

    def add_log(self, version_id: str, lines: Sequence[str]) -> None:
        """Appends. Lines of a version that is gone are dropped."""
        if not lines:
            return
        with self._db.write() as conn:
            # The lock keeps two writers from the same number; it also says whether the version is still there.
            if conn.execute(select(versions.c.id).where(versions.c.id == version_id).with_for_update()).one_or_none() is None:
                return
            last = conn.execute(select(func.max(build_logs.c.seq)).where(build_logs.c.version_id == version_id)).scalar_one() or 0
            rows = [{"version_id": version_id, "seq": seq, "text": text} for seq, text in enumerate(lines, start=last + 1)]
            conn.execute(self._db.insert(build_logs), rows)

    def log(self, version_id: str, after_seq: int = 0) -> list[tuple[int, str]]:
        """(seq, line) in order; numbers start with 1."""
        query = select(build_logs.c.seq, build_logs.c.text).where(build_logs.c.version_id == version_id, build_logs.c.seq > after_seq)
        with self._db.read() as conn:
            return [(row.seq, row.text) for row in conn.execute(query.order_by(build_logs.c.seq))]
