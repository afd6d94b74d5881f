from db import TABLE, cursor
from values import fields_of, number_of, text_of

MOST = 500


def bulk_insert(event):
    fields = fields_of(event)
    n = number_of(fields.get("n"), 10, most=MOST)
    return insert(n, text_of(fields.get("prefix"), "bulk"))


def insert(n, prefix):
    with cursor() as found:
        found.execute(
            f"INSERT INTO {TABLE} (title) SELECT %s || '-' || number FROM generate_series(1, %s) AS number RETURNING id", (prefix, n)
        )
        ids = [row[0] for row in found.fetchall()]
    return {"inserted": len(ids), "first_id": min(ids, default=None)}
