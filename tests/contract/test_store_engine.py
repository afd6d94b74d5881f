"""The engine: schema, files, and databases that are locked, full, broken or unreachable."""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Text, event, inspect, text

from sless.domain.model import Kind
from sless.errors import Code, ConfigError, SlessError
from sless.store import Store, faults, migrate, open_store, schema
from sless.store.migrations import HEAD
from sless.store.tables import metadata
from sless.store.types import SecretText
from tests.builders import NAMESPACE, make_invocation, make_workload_spec
from tests.contract.store_steps import at_once


def sqlite_path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def plain(value: Any) -> Any:
    return {key: str(item) for key, item in value.items()} if isinstance(value, dict) else value


def description_of(store: Store) -> dict[str, Any]:
    """Table → columns, keys, indexes and rows. Column order may differ: migrations append."""
    with store.database.read() as conn:
        found = inspect(conn)
        return {
            table: {
                "columns": sorted(str({**item, "type": item["type"].compile(conn.dialect)}) for item in found.get_columns(table)),
                "key": found.get_pk_constraint(table),
                "foreign": sorted(map(str, found.get_foreign_keys(table))),
                "unique": sorted(map(str, found.get_unique_constraints(table))),
                "indexes": sorted(str({key: plain(item) for key, item in index.items()}) for index in found.get_indexes(table)),
                "rows": conn.execute(text(f"SELECT * FROM {table} ORDER BY 1")).all(),
            }
            for table in found.get_table_names()
        }


class TestMigrations:
    @pytest.fixture
    def fresh(self, empty_database_url):
        store = open_store(empty_database_url)
        yield store
        store.close()

    def test_migrations_create_the_schema_in_the_code(self, fresh):
        migrate.upgrade(fresh.database)
        migrate.upgrade(fresh.database)
        with fresh.database.read() as conn:
            # SQLite reports an empty default as none, so defaults are only compared on PostgreSQL.
            options = {"compare_type": True, "compare_server_default": not fresh.database.is_sqlite}
            context = MigrationContext.configure(conn, opts=options)
            assert compare_metadata(context, metadata) == []

    def test_an_empty_database_gets_the_schema_that_migrations_create(self, fresh):
        fresh.migrate()
        created = description_of(fresh)
        with schema.sole_connection(fresh.database) as conn:
            for name in created:
                conn.execute(text(f"DROP TABLE {name}" + ("" if fresh.database.is_sqlite else " CASCADE")))
        migrate.upgrade(fresh.database)
        assert created == description_of(fresh)
        assert len(created) > 20

    def test_tables_of_others_are_left_alone(self, fresh):
        with fresh.database.write() as conn:
            conn.execute(text("CREATE TABLE theirs (id INTEGER)"))
        fresh.migrate()
        assert {"theirs", "tenants"} <= set(description_of(fresh))

    def test_an_up_to_date_or_empty_database_does_not_load_alembic(self, fresh, empty_database_url):
        assert migrate.head() == HEAD
        script = (
            "import sys\nfrom sless.store import open_store\nstore = open_store(sys.argv[1])\nstore.migrate()\nstore.close()\n"
            "assert 'alembic' not in sys.modules"
        )
        for _ in ("empty", "up to date"):
            subprocess.run([sys.executable, "-c", script, empty_database_url], check=True)
        fresh.check_schema()

    def test_keys_sort_byte_by_byte(self, fresh):
        """Alembic does not compare collations."""
        fresh.migrate()
        with fresh.database.read() as conn:
            if conn.dialect.name == "sqlite":
                return
            query = (
                "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' "
                "AND data_type = 'text' AND collation_name = 'C'"
            )
            found = {tuple(row) for row in conn.execute(text(query))}
        wanted = {
            (table.name, item.name)
            for table in metadata.tables.values()
            for item in table.columns
            if isinstance(item.type, Text | SecretText)
        }
        assert found - {("alembic_version", "version_num")} == wanted
        assert ("workloads", "name") in found and ("triggers", "function_ref") in found

    def test_an_unmigrated_database_fails_and_logs_the_missing_table(self, fresh, caplog):
        with pytest.raises(SlessError) as caught:
            fresh.tenants.find(NAMESPACE)
        assert caught.value.code is Code.INTERNAL
        assert "tenants" in caplog.text

    def test_a_newer_schema_is_refused_and_left_unchanged(self, fresh):
        fresh.migrate()
        with fresh.database.write() as conn:
            conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(ConfigError, match=f'has schema "9999", this version of sless knows up to "{HEAD}"'):
            fresh.migrate()
        fresh.tenants.ensure(NAMESPACE, "x")

    def test_servers_starting_at_the_same_time(self, empty_database_url):
        stores = [open_store(empty_database_url) for _ in range(4)]
        at_once([store.migrate for store in stores])
        stores[0].tenants.ensure(NAMESPACE, "x")
        assert stores[3].tenants.find(NAMESPACE) is not None
        for store in stores:
            store.close()

    def test_foreign_keys_are_enforced(self, fresh):
        fresh.migrate()
        with pytest.raises(SlessError), fresh.database.write() as conn:
            conn.execute(text("INSERT INTO build_logs (version_id, seq, text) VALUES ('nobody', 1, 'x')"))

    def test_paths_with_special_characters(self, tmp_path, repository):
        """Alembic interpolates its settings, and the package may be installed anywhere."""
        folder = tmp_path / "100%s (x)"
        shutil.copytree(repository / "sless", folder / "sless", ignore=shutil.ignore_patterns("__pycache__"))
        script = (
            "import sys, sless.store\nassert sys.argv[1] in sless.__file__, sless.__file__\n"
            "store = sless.store.open_store(sless.store.sqlite_url_of(sys.argv[1] + '/a%20b?#.db'))\n"
            "store.migrate()\nstore.ping()\nstore.close()\n"
        )
        subprocess.run([sys.executable, "-c", script, str(folder)], check=True, env={"PYTHONPATH": str(folder)}, cwd=folder)
        assert (folder / "a%20b?#.db").stat().st_size > 0


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "complaint"),
        [
            ("sqlite://", "SQLite needs a file"),
            ("sqlite:///:memory:", "SQLite needs a file"),
            ("mysql://u:secret@h/d", 'expected sqlite or postgresql, found "mysql"'),
            ("nonsense secret", "expected sqlite:///path/to/file"),
            ("sqlite:////proc/nowhere/x.db", "cannot open the database file"),
        ],
    )
    def test_bad_urls_are_reported_without_their_secrets(self, url, complaint):
        with pytest.raises(ConfigError, match=complaint) as caught:
            open_store(url)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
    def test_every_postgresql_scheme(self, scheme, postgres_url):
        store = open_store(postgres_url.replace("postgresql", scheme, 1))
        store.ping()
        store.close()

    def test_the_file_is_only_accessible_to_its_owner(self, tmp_path):
        path = tmp_path / "folder" / "sless.db"
        store = open_store(f"sqlite:///{path}")
        store.migrate()
        modes = {stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()}
        store.close()
        assert modes == {0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


class TestTransactions:
    def test_a_reader_does_not_wait_for_a_writer(self, store, workload):
        with store.database.write() as conn:
            conn.execute(text("UPDATE workloads SET generation = 7"))
            found = at_once([lambda: store.workloads.get_by_id(workload.id)])
        assert found[0].generation == 1
        assert store.workloads.get_by_id(workload.id).generation == 7

    def test_a_reader_sees_a_snapshot(self, store, workload):
        with store.database.read() as conn:
            before = conn.execute(text("SELECT generation FROM workloads")).scalar_one()
            at_once([lambda: store.workloads.update_spec(workload.id, make_workload_spec(memory_mb=512))])
            assert conn.execute(text("SELECT generation FROM workloads")).scalar_one() == before
        assert store.workloads.get_by_id(workload.id).generation == before + 1

    def test_a_reader_cannot_write_on_postgresql(self, store):
        if store.database.is_sqlite:
            return
        with pytest.raises(SlessError), store.database.read() as conn:
            conn.execute(text("DELETE FROM tenants"))

    def test_an_error_rolls_back(self, store):
        with pytest.raises(ZeroDivisionError), store.database.write() as conn:
            conn.execute(text("DELETE FROM tenants"))
            raise ZeroDivisionError
        assert store.tenants.find(NAMESPACE) is not None

    def test_sqlite_pragmas(self, make_store):
        store = make_store(durable=True)
        with store.database.engine.connect() as conn:
            if not store.database.is_sqlite:
                return
            values = {name: conn.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("journal_mode", "foreign_keys", "synchronous")}
            assert values == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2}
            assert conn.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 5000


def impatient(store) -> None:
    """Makes new connections wait only 50 ms for a lock."""
    statement = "PRAGMA busy_timeout=50" if store.database.is_sqlite else "SET lock_timeout = '50ms'"

    @event.listens_for(store.database.engine, "connect")
    def on_connect(connection, _record):
        connection.execute(statement)
        if not store.database.is_sqlite:
            connection.commit()


class TestFailures:
    def test_a_locked_database(self, make_store, store, workload):
        waiting = make_store()
        impatient(waiting)
        with store.database.write() as conn:
            conn.execute(text("UPDATE workloads SET generation = generation"))
            with pytest.raises(SlessError, match="the database is busy; try again") as caught:
                waiting.workloads.mark_deleted(workload.id)
        assert (caught.value.code, caught.value.status, caught.value.retry_after_sec) == (Code.UNAVAILABLE, 503, 1)
        waiting.workloads.mark_deleted(workload.id)

    def test_no_free_connection(self, make_store):
        store = make_store()
        store.database.engine.pool._timeout = 0.05  # type: ignore[attr-defined]
        held = [store.database.engine.connect() for _ in range(30)]
        with pytest.raises(SlessError) as caught:
            store.ping()
        assert caught.value.code is Code.UNAVAILABLE
        for conn in held:
            conn.close()
        store.ping()

    def test_a_full_disk(self, store, workload):
        if store.database.is_sqlite:
            with store.database.engine.connect() as conn:
                pages = conn.exec_driver_sql("PRAGMA page_count").scalar_one()
            store.close()
            event.listen(store.database.engine, "connect", lambda raw, _: raw.execute(f"PRAGMA max_page_count={pages + 5}"))
            calls = [make_invocation(error="x" * 1000) for _ in range(200)]
            fill = lambda: store.history.add_history(calls, [], [])  # noqa: E731
        else:

            def fill() -> None:
                with store.database.write() as conn:
                    conn.execute(text("DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"))

        with pytest.raises(SlessError, match="the disk of the database is full") as caught:
            fill()
        assert (caught.value.code, caught.value.status) == (Code.STORAGE_FULL, 507)
        assert store.history.list_invocations("w1") == []
        assert store.workloads.get_by_id(workload.id) == workload

    def test_a_file_that_is_not_a_database(self, tmp_path):
        path = tmp_path / "sless.db"
        path.write_bytes(b"no database" * 1000)
        store = open_store(f"sqlite:///{path}")
        with pytest.raises(SlessError, match="the database cannot be used: file is not a database") as caught:
            store.migrate()
        assert caught.value.code is Code.UNAVAILABLE
        store.close()

    def test_an_unreachable_server(self, tmp_path):
        store = open_store(f"postgresql://nobody:secret@/x?host={tmp_path}")
        with pytest.raises(SlessError, match="the database cannot be reached") as caught:
            store.ping()
        assert caught.value.code is Code.UNAVAILABLE
        store.close()

    def test_a_connection_that_broke_while_idle_is_replaced(self, postgres_url):
        store = open_store(postgres_url)
        other = open_store(postgres_url)
        store.ping()
        with other.database.write() as conn:
            conn.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
            )
        store.ping()
        store.close()
        other.close()

    def test_a_connection_that_breaks_during_a_transaction(self, postgres_url):
        store = open_store(postgres_url)
        with pytest.raises(SlessError) as caught, store.database.write() as conn:
            conn.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        assert caught.value.code is Code.UNAVAILABLE
        store.ping()
        store.close()

    def test_a_bug_is_an_internal_error_and_logged(self, store, caplog):
        with pytest.raises(SlessError) as caught, store.database.write() as conn:
            conn.execute(text("SELECT nonsense FROM tenants"))
        assert caught.value.code is Code.INTERNAL
        assert "nonsense" not in caught.value.message
        assert "nonsense" in caplog.text

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            (sqlite3.SQLITE_BUSY, Code.UNAVAILABLE),
            (sqlite3.SQLITE_BUSY_SNAPSHOT, Code.UNAVAILABLE),
            (sqlite3.SQLITE_FULL, Code.STORAGE_FULL),
            (sqlite3.SQLITE_IOERR_WRITE, Code.UNAVAILABLE),
            (sqlite3.SQLITE_ERROR, Code.INTERNAL),
        ],
    )
    def test_sqlite_error_codes(self, code, expected):
        from sqlalchemy.exc import OperationalError

        orig = sqlite3.OperationalError("x")
        orig.sqlite_errorcode = code
        assert faults.fault_of(OperationalError("SELECT 1", None, orig)).code is expected


WRITER = """
import sys
from sless.domain.model import Kind
from sless.store import open_store
from tests.builders import NAMESPACE, make_call_stats, make_invocation, make_log_line, make_run, make_workload_spec

store = open_store(sys.argv[1])
workload = store.workloads.insert(NAMESPACE, Kind.FUNCTION, "written", make_workload_spec())
number = 0
while True:
    number += 1
    run = make_run(workload_id=workload.id)
    store.runs.insert(run)
    print("run", run.id, flush=True)
    calls = [make_invocation(workload_id=workload.id) for _ in range(200)]
    lines = [make_log_line(source_id=str(number), seq=seq, workload_id=workload.id) for seq in range(200)]
    store.history.add_history(calls, [make_call_stats(workload_id=workload.id, calls=200)], lines)
    print("batch", number, flush=True)
"""


class TestKill:
    @pytest.mark.parametrize("batches", [1, 4])
    def test_accepted_runs_and_batches_survive_kill_9(self, store, database_url, make_store, batches):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, database_url], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        runs: list[str] = []
        done = 0
        watchdog = threading.Timer(60, child.kill)
        watchdog.start()
        for line in child.stdout:
            kind, value = line.split()
            if kind == "run":
                runs.append(value)
            else:
                done = int(value)
            if done >= batches and kind == "run":  # in the middle of the next batch
                break
        os.kill(child.pid, signal.SIGKILL)
        rest, _ = child.communicate()
        watchdog.cancel()
        runs += [line.split()[1] for line in rest.splitlines() if line.startswith("run ") and len(line) == 24]

        assert done >= batches
        after = make_store()
        after.migrate()
        assert all(after.runs.find(run_id) is not None for run_id in runs)
        (workload,) = after.workloads.list_in(NAMESPACE, (Kind.FUNCTION,))
        calls = len(after.history.list_invocations(workload.id, limit=100_000, trigger="http"))
        lines = len(after.history.log_tail(workload.id))
        with after.database.read() as conn:
            counted = conn.execute(text("SELECT sum(calls) FROM call_stats")).scalar_one()
            if after.database.is_sqlite:
                assert conn.exec_driver_sql("PRAGMA integrity_check").scalar_one() == "ok"
        # Every acknowledged batch is stored, and no batch partially.
        assert calls == lines == counted
        assert calls % 200 == 0 and calls >= 200 * done
