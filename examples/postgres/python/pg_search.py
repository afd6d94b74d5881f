from db import TABLE, cursor, escaped
from values import fields_of, number_of, text_of

MOST_ROWS = 100
MOST_OFFSET = 2**31


def search(event):
    fields = fields_of(event)
    pattern = f"%{escaped(text_of(fields.get('query')))}%"
    limit = number_of(fields.get("limit"), 20, most=MOST_ROWS)
    offset = number_of(fields.get("offset"), 0, most=MOST_OFFSET)
    with cursor() as found:
        found.execute(f"SELECT count(*) FROM {TABLE} WHERE title ILIKE %s", (pattern,))
        total = found.fetchone()[0]
        found.execute(
            f"SELECT id, title, created_at FROM {TABLE} WHERE title ILIKE %s ORDER BY id LIMIT %s OFFSET %s", (pattern, limit, offset)
        )
        rows = [{"id": row[0], "title": row[1], "created_at": row[2]} for row in found.fetchall()]
    return {"rows": rows, "count": len(rows), "total": total, "limit": limit, "offset": offset}
