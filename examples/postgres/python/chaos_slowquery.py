import psycopg
from values import fields_of, number_of

MOST_SEC = 8


def slowquery(event):
    """Uses a separate connection while the database sleeps, so slow calls do not wait for one another."""
    fields = fields_of(event)
    wanted = fields.get("sleep_sec", fields.get("seconds"))
    seconds = float(min(wanted, MOST_SEC)) if number_of(wanted, None) is not None else 1.0
    with psycopg.connect("", connect_timeout=5, autocommit=True) as connection:
        connection.execute("SELECT pg_sleep(%s)", (seconds,))
    return {"slept_sec": seconds}
