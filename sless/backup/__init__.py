"""Backup: writes database and code to one file while servers run, and restores it, also to the other kind of database and code store.

`archive` the file · `writing` writes it · `restoring` restores it.

The file is a tar, gzipped if its name ends in .gz or .tgz:

    manifest.json             {"format": "sless-backup", "format_version": 1, "schema", "sless_version", "created_at",
                               "tables": {name: {column: type}}}
    code/<key>                each uploaded zip that a version refers to (and possibly some unreferenced ones)
    keys/jwt-secret           the signing key of tokens if SLESS_AUTH_MODE is local
    tables/<name>/000001      rows, one JSON array per line, in the order of the manifest's columns; parts of about 4 MB
    end.json                  {"members": {name: {"size", "sha256"}}, "encryption_keys": [ids]}; if it is missing, the file is incomplete

Decisions:
- Rows are JSON rather than a database's own dump, so that SQLite can move to PostgreSQL and back. They keep the schema in which they were
  written; a restore creates that schema, fills it and migrates it, in one transaction. So an older backup fits a newer sless.
- Code comes before the rows: blobs never change, so the code of a snapshot is complete if all of it is in the file while the snapshot is
  open. If a blob vanishes (because its function was deleted), a new snapshot is taken.
- A restore verifies the whole file before it changes anything, then reads it again.
- Secrets stay encrypted as in the database, and the keys are not in the file, so people who keep backups need not be trusted with secrets.
- Data that is only valid while servers run (leases, addresses of instances) is left out.
"""

from sless.backup.archive import BrokenBackup
from sless.backup.restoring import Restored, RestoreTarget, restore
from sless.backup.writing import BackupSummary, Report, write

__all__ = ["BackupSummary", "BrokenBackup", "Report", "RestoreTarget", "Restored", "restore", "write"]
