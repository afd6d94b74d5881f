from db import TABLE, cursor


def read(event):
    """The newest rows."""
    with cursor() as found:
        found.execute(f"SELECT id, title, created_at FROM {TABLE} ORDER BY id DESC LIMIT 100")
        rows = [{"id": row[0], "title": row[1], "created_at": row[2]} for row in found.fetchall()]
    return {"rows": rows, "count": len(rows)}
