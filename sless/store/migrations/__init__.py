"""Alembic's scripts. `versions/` holds one module per schema; never edit one that has been released."""

HEAD = "0013"
"""The newest one, so that an up-to-date database is recognised without Alembic."""
