"""Writes each message to a table. A message that is delivered twice is written once."""

import json

import psycopg

TABLE = """
    CREATE TABLE IF NOT EXISTS event_log (
        message_id text PRIMARY KEY, body jsonb NOT NULL, received_at timestamptz NOT NULL DEFAULT now()
    )
"""


def handle(event, context):
    message_id = (context.message or {}).get("message_id") or context.request_id
    with psycopg.connect("", connect_timeout=5) as connection:
        # Two instances may create the table at the same time.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('event_log'))")
        connection.execute(TABLE)
        written = connection.execute(
            "INSERT INTO event_log (message_id, body) VALUES (%s, %s) ON CONFLICT DO NOTHING", (message_id, json.dumps(event))
        )
        return {"written": written.rowcount, "message_id": message_id}
