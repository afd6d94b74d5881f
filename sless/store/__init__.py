"""Store: desired state, what happened once, and history, in SQLite (default) or PostgreSQL. The one home of SQLAlchemy and alembic.

`store` the doors · one module per aggregate: `tenants`, `workloads`, `versions` + `build_log`, `triggers` + `firings`, `runs`, `history` +
`stats` + `bulk` + `cleaning`, `routes` + `snapshot`, `callbacks`, `discards` · `run_moves` moves of runs, `fair` whose turn it is · `lease`
one leader · `revision` what changed · `engine` transactions · `faults` database errors → SlessError · `codec` secrets and JSON → text ·
`types`, `base`, `tables`, `run_tables`, `migrations/`, `migrate` · `dump` all rows, for backups.

Decisions:
- Core, no ORM: rows come out as the frozen dataclasses of `domain.model`, so nothing is loaded later and nobody holds a session.
- One transaction per method, none across anything slow. Two engine options: reads are snapshots that wait for nobody, writes take the
  lock first (`engine`).
- What happens once moves by compare-and-set along `domain.lifecycle`; the answer is True for the one who moved it.
- Locks are taken in the order workload, version or run, invocation, statistics, revision; so no two transactions wait crosswise.
- A deleted workload keeps its row until nothing of it runs, but not its name.
"""

from sless import ids
from sless.store.engine import open_database, sqlite_url_of
from sless.store.lease import ReadTime
from sless.store.store import Store

__all__ = ["Store", "open_store", "sqlite_url_of"]


def open_store(database_url: str, *, holder: str | None = None, read_time: ReadTime | None = None) -> Store:
    """`holder` names this process in leases, claims and statistics. Neither connects to PostgreSQL nor migrates. Raises ConfigError."""
    return Store(open_database(database_url), holder or ids.new_id(), read_time)
