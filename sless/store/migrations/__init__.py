"""Alembic's scripts. `versions/` holds one module per schema; once released, a module is never edited."""

HEAD = "0009"
"""The newest one, so that an up-to-date database is recognised without Alembic."""
