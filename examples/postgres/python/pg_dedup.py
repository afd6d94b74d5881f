from db import TABLE, cursor
from values import fields_of

OLDER = f"""FROM {TABLE} mine WHERE EXISTS (
    SELECT 1 FROM {TABLE} other WHERE md5(other.title) = md5(mine.title) AND other.title = mine.title AND other.id < mine.id
)"""


def dedup(event):
    """Keeps the oldest row of each title. A `dry_run` that is not a boolean deletes nothing."""
    dry_run = fields_of(event).get("dry_run", False) is not False
    with cursor() as found:
        found.execute(f"SELECT count(*) {OLDER}")
        duplicates = found.fetchone()[0]
        deleted = 0
        if not dry_run:
            found.execute(f"DELETE {OLDER}")
            deleted = found.rowcount
        return {"duplicates_found": duplicates, "deleted": deleted, "dry_run": dry_run}
