"""The store as one object: one attribute per aggregate, over one database."""

from sqlalchemy import select

from sless.errors import ConfigError
from sless.store import lease, schema
from sless.store.audit import AuditStore
from sless.store.callbacks import CallbackStore
from sless.store.demand import DemandStore
from sless.store.discards import DiscardStore
from sless.store.engine import Database
from sless.store.firings import FiringStore
from sless.store.history import HistoryStore
from sless.store.keyring import Keyring, attach
from sless.store.lease import LeaseStore
from sless.store.metering import MeteringStore
from sless.store.migrations import HEAD
from sless.store.notices import NoticeStore
from sless.store.reconcile_errors import ReconcileErrorStore
from sless.store.revocations import RevocationStore
from sless.store.routes import RouteStore
from sless.store.runs import RunStore
from sless.store.sealed import SealedStore
from sless.store.stats import StatsStore
from sless.store.suspensions import SuspensionStore
from sless.store.tables import meta
from sless.store.tenant_reports import TenantReportStore
from sless.store.tenants import TenantStore
from sless.store.triggers import TriggerStore
from sless.store.uptime import UptimeStore
from sless.store.verdicts import CodeVerdictStore
from sless.store.versions import VersionStore
from sless.store.workloads import WorkloadStore


class Store:
    """Thread-safe. Each method is one short transaction (several for clean-ups) and raises only SlessError."""

    def __init__(self, database: Database, holder: str, read_time: lease.ReadTime | None = None, keyring: Keyring | None = None) -> None:
        self.database = database
        self.holder = holder
        keyring = keyring or Keyring()
        attach(database.engine.dialect, keyring)
        self.sealed: SealedStore = SealedStore(database, keyring)
        stats = StatsStore(database, holder)
        self.audit: AuditStore = AuditStore(database)
        self.revocations: RevocationStore = RevocationStore(database)
        self.suspensions: SuspensionStore = SuspensionStore(database)
        self.reconcile_errors: ReconcileErrorStore = ReconcileErrorStore(database)
        self.tenant_reports: TenantReportStore = TenantReportStore(database)
        self.verdicts: CodeVerdictStore = CodeVerdictStore(database)
        self.metering: MeteringStore = MeteringStore(database)
        self.notices: NoticeStore = NoticeStore(database)
        self.tenants: TenantStore = TenantStore(database)
        self.workloads: WorkloadStore = WorkloadStore(database)
        self.versions: VersionStore = VersionStore(database, read_time)
        self.discards: DiscardStore = DiscardStore(database)
        self.triggers: TriggerStore = TriggerStore(database)
        self.firings: FiringStore = FiringStore(database)
        self.runs: RunStore = RunStore(database, stats)
        self.callbacks: CallbackStore = CallbackStore(database)
        self.history: HistoryStore = HistoryStore(database, stats)
        self.routes: RouteStore = RouteStore(database)
        self.leases: LeaseStore = LeaseStore(database, read_time)
        self.uptime: UptimeStore = UptimeStore(database)
        self.demand: DemandStore = DemandStore(database, read_time)

    def migrate(self) -> None:
        """Brings the schema up to date. Raises ConfigError when it is newer than this version of sless."""
        found = self._schema()
        if found == HEAD or (found is None and schema.create(self.database)):
            return
        # Importing Alembic takes 0.2 s, and only migrations need it.
        from sless.store import migrate

        migrate.upgrade(self.database)

    def check_schema(self) -> None:
        """Raises ConfigError unless the database has this version's schema."""
        if (found := self._schema()) != HEAD:
            raise ConfigError(f'the database has schema "{found or "none"}", this version of sless "{HEAD}": run `sless migrate` first')

    def ping(self) -> None:
        """Raises SlessError if the database does not respond."""
        with self.database.read() as conn:
            conn.execute(select(1))

    def _schema(self) -> str | None:
        """None: no schema yet."""
        with self.database.read() as conn:
            return schema.schema_of(conn)

    def close(self) -> None:
        self.database.close()

    def meta_ensure(self, key: str, value: str) -> str:
        """Stores the value unless the key exists. Returns the stored value, the same for all concurrent processes."""
        with self.database.write() as conn:
            conn.execute(self.database.insert(meta).values(key=key, value=value).on_conflict_do_nothing())
            return conn.execute(select(meta.c.value).where(meta.c.key == key)).scalar_one()
