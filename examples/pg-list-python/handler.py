"""Lists the tables of a PostgreSQL database, or the first rows of one."""

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

TABLES = """
    SELECT table_name, (SELECT count(*) FROM information_schema.columns c
                        WHERE (c.table_schema, c.table_name) = (t.table_schema, t.table_name)) AS columns
    FROM information_schema.tables t WHERE table_schema = 'public' ORDER BY table_name
"""
MOST_ROWS = 100


def handle(event):
    """`?table=NAME&limit=10`; libpq reads PGHOST, PGDATABASE, PGUSER, PGPASSWORD and PGSSLMODE."""
    table, limit = str(event.get("table") or ""), str(event.get("limit") or "10")
    if not limit.isdecimal():
        return {"statusCode": 400, "body": {"error": "limit: expected a whole number"}}
    with psycopg.connect("", connect_timeout=5, row_factory=dict_row) as connection:
        tables = connection.execute(TABLES).fetchall()
        if not table:
            return {"tables": tables}
        if table not in {known["table_name"] for known in tables}:
            return {"statusCode": 404, "body": {"error": f"no table {table!r}"}}
        query = sql.SQL("SELECT * FROM {} LIMIT %s").format(sql.Identifier("public", table))
        return {"table": table, "rows": connection.execute(query, (min(int(limit), MOST_ROWS),)).fetchall()}
