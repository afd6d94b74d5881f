"""Alembic's scripts. `versions/` holds one module per schema; once released, a module is never edited."""
