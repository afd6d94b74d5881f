from db import TABLE, cursor
from values import bad_request, fields_of, text_of


def upsert(event):
    """Titles are not unique in the table, so a lock per title keeps two calls from inserting the same one."""
    title = text_of(fields_of(event).get("title"))
    if not title:
        return bad_request("title: expected a text")
    with cursor() as found:
        found.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (title,))
        found.execute(f"SELECT min(id) FROM {TABLE} WHERE md5(title) = md5(%s) AND title = %s", (title, title))
        known = found.fetchone()[0]
        if known is not None:
            found.execute(f"UPDATE {TABLE} SET created_at = now() WHERE id = %s", (known,))
            return {"action": "updated", "id": known}
        found.execute(f"INSERT INTO {TABLE} (title) VALUES (%s) RETURNING id", (title,))
        return {"action": "inserted", "id": found.fetchone()[0]}
