from db import TABLE, cursor, escaped
from values import fields_of, text_of


def count(event):
    prefix = text_of(fields_of(event).get("prefix"))
    with cursor() as found:
        found.execute(f"SELECT count(*) FROM {TABLE} WHERE title LIKE %s", (escaped(prefix) + "%",))
        return {"total": found.fetchone()[0]}
