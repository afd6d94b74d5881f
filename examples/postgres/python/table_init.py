from db import TABLE, cursor

STATEMENTS = (
    f"""CREATE TABLE IF NOT EXISTS {TABLE} (
        id bigserial PRIMARY KEY, title text NOT NULL, created_at timestamptz NOT NULL DEFAULT now()
    )""",
    f"CREATE INDEX IF NOT EXISTS {TABLE}_title ON {TABLE} (md5(title))",
    # For js-idempotent.
    "CREATE TABLE IF NOT EXISTS terraform_demo_keys (key_hash text PRIMARY KEY, row_id bigint NOT NULL)",
)


def run(event):
    """The job that creates the tables."""
    with cursor() as found:
        for statement in STATEMENTS:
            found.execute(statement)
    return {"ok": True, "table": TABLE}
