from db import TABLE, cursor
from values import bad_request, fields_of, text_of


def write(event):
    title = text_of(fields_of(event).get("title"))
    if not title:
        return bad_request("title: expected a text")
    with cursor() as found:
        found.execute(f"INSERT INTO {TABLE} (title) VALUES (%s) RETURNING id, title, created_at", (title,))
        row = found.fetchone()
    return {"id": row[0], "title": row[1], "created_at": row[2]}
