"""Store: desired state, one-off events and history, in SQLite (default) or PostgreSQL. The only importer of SQLAlchemy and alembic.

`store` the object that the rest of sless uses · one module per aggregate: `tenants`, `workloads`, `versions` (with build logs), `triggers`
+ `firings`, `runs`, `history` + `stats` + `uptime` + `bulk` + `cleaning`, `routes` + `snapshot`, `callbacks`, `deliveries`, `discards` ·
`run_moves` status changes of runs · `queries` shared parts of queries · `lease` leader election · `demand` load, and use by tenants, per
replica · `signals` wake other replicas · `revision` change counters · `engine` transactions · `faults` database errors → SlessError ·
`codec` JSON → text · `keyring` + `sealed` encryption of secrets · `types`, `tables`, `run_tables`, `demand_tables`, `migrations/`,
`schema` (creates it in an empty database), `migrate` (updates it) the schema · `dump` all rows, for backups.

For operators: `audit` the audit trail · `revocations` of tokens · `verdicts` on code · `suspensions` of tenants and
workloads · `metering` usage for billing · `notices` to tenants ·
`tenant_reports` counts and usage of many tenants, failing builds, queues · `reconcile_errors` of control loops · `operator_tables` the
schema of these.

`history_process` is a separate program beside the server, which writes history.

Decisions:
- Core, no ORM: queries return the frozen dataclasses of `domain.model`, so nothing is loaded lazily and no session is kept.
- One transaction per method, none across anything slow. Two engine options: reads are snapshots that never wait, writes take the lock
  first (`engine`).
- State changes that must happen once are compare-and-set along `domain.lifecycle`; only the caller that made the change gets True.
- Locks are taken in the order workload, version or run, invocation, statistics, revision, so that transactions cannot deadlock.
- Secrets are encrypted by the type of their column, so no query can store one in plain text. Each value is stored with its key id, so that
  the right key is found without trying, and errors can name the keys that a database or backup needs. Backups hold values as stored.
- A deleted workload keeps its row until nothing of it runs, but frees its name immediately.
"""

from sless import ids
from sless.store.engine import open_database, sqlite_url_of
from sless.store.keyring import FixedKeys, Keyring, KeySource, id_of_key, new_key
from sless.store.lease import ReadTime
from sless.store.signals import Signals
from sless.store.store import Store

__all__ = ["FixedKeys", "KeySource", "Keyring", "Signals", "Store", "id_of_key", "new_key", "open_store", "sqlite_url_of"]


def open_store(
    database_url: str, *, keyring: Keyring | None = None, holder: str | None = None, read_time: ReadTime | None = None, durable: bool = True
) -> Store:
    """`keyring` encrypts secrets; without it they are stored plain, and encrypted ones cannot be read. `holder` names this process in
    leases, claims and statistics. Tests pass `durable=False`: SQLite then does not wait for the disk. Does not connect to PostgreSQL and
    does not migrate. Raises ConfigError."""
    return Store(open_database(database_url, durable), holder or ids.new_id(), read_time, keyring)
