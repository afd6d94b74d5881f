"""Backup: writes database and code to one file while servers run, and restores it, also to the other kind of database and code store.

`archive` the file · `writing` backups · `restoring` them.

The file is a tar, gzipped when its name says so:

    manifest.json             {"format": "sless-backup", "format_version": 1, "schema", "sless_version", "created_at",
                               "tables": {name: {column: type}}}
    code/<key>                each uploaded zip that a version refers to (and perhaps some unreferenced ones)
    keys/jwt-secret           the signing key of tokens if SLESS_AUTH_MODE is local
    tables/<name>/000001      rows, one JSON array per line, in the order of the manifest's columns; parts of about 4 MB
    end.json                  {"members": {name: {"size", "sha256"}}, "encryption_keys": [ids]}: without it the file is incomplete

Decisions:
- Rows are JSON and not a database's own dump, so SQLite moves to PostgreSQL and back. They keep the schema they were written in; restoring
  makes that schema, fills it and migrates it, in one transaction: an older backup fits a newer sless.
- Code first, then the rows: blobs never change, so those of a snapshot are complete when all of them are in the file while the snapshot is
  open. If one vanishes (its function was deleted), a new snapshot is taken.
- A restore reads the file to its end before it changes anything, and then again.
- Secrets stay encrypted as they are in the database, and the keys are not in the file: whoever keeps backups need not be trusted with them.
- Data that is only valid while servers run (leases, addresses of instances) is left out.
"""

from sless.backup.archive import BrokenBackup
from sless.backup.restoring import Restored, RestoreTarget, restore
from sless.backup.writing import Written, write

__all__ = ["BrokenBackup", "RestoreTarget", "Restored", "Written", "restore", "write"]
