from db import TABLE, cursor
from values import fields_of, number_of

DAY_MIN = 24 * 60
MOST_MIN = 100 * 365 * DAY_MIN


def delete_old(event):
    """Without a valid age, deletes rows older than a day."""
    fields = fields_of(event)
    minutes = number_of(fields.get("older_than_min", fields.get("older_than_minutes")), DAY_MIN, most=MOST_MIN)
    with cursor() as found:
        found.execute(f"DELETE FROM {TABLE} WHERE created_at < now() - make_interval(mins => %s)", (minutes,))
        return {"deleted": found.rowcount, "older_than_min": minutes}
