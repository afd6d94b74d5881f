"""Alembic's scripts. `versions/` holds one module per schema; once released, a module is never edited."""

HEAD = "0001"
"""The newest of them, so that a database that has it is known without Alembic."""
