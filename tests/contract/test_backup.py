"""Backup and restore between both databases; an incomplete file changes nothing."""

import gzip
import io
import json
import os
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from sqlalchemy import insert, inspect, select, text

from sless.app.backup import Usable, write_backup
from sless.backup import BrokenBackup, Restored, RestoreTarget, archive, restore, write
from sless.code.folder import FolderCodeStore
from sless.config import Settings
from sless.errors import ConfigError, SlessError
from sless.store import Store, dump, migrate, open_store
from sless.store.tables import metadata, versions, workloads
from sless.store.types import UtcDateTime
from tests.builders import make_version

SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
INTO_SQLITE = pytest.mark.parametrize("empty_database_url", ["sqlite"], indirect=True)
"""For what does not depend on the database."""
AT = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
LEFT_OUT = {"demand", "tenant_use", "leases", "endpoints", "standing_instances", "reconcile_errors"}


def key_of(number: int) -> str:
    return f"sless-0123456789abcdef/w{number}/{number:064x}-u1.zip"


def fill(store: Store, code: FolderCodeStore, folder: Path, rows: int = 3) -> None:
    """Inserts rows into every table with a value in every column, and code for each version."""
    with store.database.write() as conn:
        for table in metadata.sorted_tables:
            if table.name not in {"revisions", *LEFT_OUT}:
                conn.execute(insert(table), [{column.name: value_of(column, row) for column in table.columns} for row in range(rows)])
    for row in range(rows):
        (folder / "blob").write_bytes(f"code of {row}".encode() * (row + 1))
        code.put(key_of(row), folder / "blob")


def value_of(column: Any, row: int) -> Any:
    for foreign in column.foreign_keys:
        return value_of(foreign.column, row)
    if isinstance(column.type, UtcDateTime):
        return AT + timedelta(seconds=row)
    if column.type.python_type in (int, float, bool):
        return column.type.python_type(row + 1)
    special = {"code_key": key_of(row), "state": "ready", "build_env": "{}", "warnings": "[]"}
    return special.get(column.name, f"{column.name} {row} äöü\n\x01 \N{GRINNING FACE}")


def rows_of(store: Store) -> dict[str, list[Any]]:
    with dump.snapshot(store.database) as snapshot:
        return {name: list(snapshot.rows(name)) for name in snapshot.tables() if name != "revisions"}


def blobs_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.zip")}


class Place:
    """A store and a code store to back up and restore."""

    def __init__(self, url: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.url = folder, url
        self.store = open_store(url)
        self.code = FolderCodeStore(folder / "code")
        self.progress: list[str] = []

    def backup(self, target: BinaryIO | None = None, *, compressed: bool = True) -> bytes:
        file = target or io.BytesIO()
        write(self.store, self.code, file, compressed=compressed, signing_key=self.folder / "jwt-secret", report=self.progress.append)
        return file.getvalue() if isinstance(file, io.BytesIO) else b""

    def restore(self, data: bytes, *, force: bool = False, usable: bool = True) -> Restored:
        target = RestoreTarget(
            store=self.store, code=self.code, folder=self.folder, signing_key=self.folder / "jwt-secret", is_usable=lambda version: usable
        )
        return restore(io.BytesIO(data), target, force=force, report=self.progress.append)


@pytest.fixture
def here(database_url, tmp_path):
    place = Place(database_url, tmp_path / "here")
    fill(place.store, place.code, tmp_path)
    (place.folder / "jwt-secret").write_text("the key")
    yield place
    place.store.close()


@pytest.fixture
def there(empty_database_url, tmp_path):
    place = Place(empty_database_url, tmp_path / "there")
    yield place
    place.store.close()


def test_everything_is_restored_in_either_database(here, there):
    done = there.restore(here.backup())
    assert rows_of(there.store) == rows_of(here.store)
    assert blobs_of(there.folder) == blobs_of(here.folder)
    assert len(blobs_of(there.folder)) == done.blobs == 3
    assert done.rows == sum(map(len, rows_of(here.store).values())) + 2  # the revisions
    assert (there.folder / "jwt-secret").read_text() == "the key"
    assert (there.folder / "jwt-secret").stat().st_mode & 0o777 == 0o600


@SQLITE
def test_every_table_is_included_or_excluded_on_purpose(here):
    with dump.snapshot(here.store.database) as snapshot:
        kept = set(snapshot.tables())
    with here.store.database.read() as conn:
        assert kept == set(inspect(conn).get_table_names()) - LEFT_OUT - {"alembic_version"}
    assert all(rows for rows in rows_of(here.store).values())


@SQLITE
def test_id_sequences_continue(here, there):
    there.restore(here.backup())
    columns = metadata.tables["log_lines"].columns
    values = {column.name: value_of(column, 77) for column in columns if column.name != "id"}
    with there.store.database.write() as conn:
        conn.execute(insert(metadata.tables["log_lines"]), [values])
        assert conn.execute(select(columns.id).order_by(columns.id.desc()).limit(1)).scalar_one() == 4


@SQLITE
@INTO_SQLITE
def test_an_uncompressed_backup(here, there):
    plain = here.backup(compressed=False)
    assert plain[257:262] == b"ustar"
    there.restore(plain)
    assert rows_of(there.store) == rows_of(here.store)


def test_a_non_empty_installation_is_only_replaced_with_force(here, tmp_path):
    saved, before = here.backup(), rows_of(here.store)
    with here.store.database.write() as conn:
        conn.execute(text("UPDATE workloads SET name = 'other'"))
        conn.execute(insert(versions), [{**version_row(conn), "id": "fourth", "number": 99, "code_key": key_of(9)}])
    (tmp_path / "blob").write_bytes(b"newer")
    here.code.put(key_of(9), tmp_path / "blob")
    with pytest.raises(ConfigError, match=r"not empty.*--force"):
        here.restore(saved)
    assert len(blobs_of(here.folder)) == 4
    here.restore(saved, force=True)
    assert rows_of(here.store) == before
    assert len(blobs_of(here.folder)) == 3


def version_row(conn: Any) -> dict[str, Any]:
    return dict(conn.execute(select(versions).limit(1)).mappings().one())


def test_a_shared_database_keeps_the_tables_of_others(here):
    with here.store.database.write() as conn:
        conn.execute(text("CREATE TABLE IF NOT EXISTS theirs (id INTEGER)"))
    here.restore(here.backup(), force=True)
    with here.store.database.write() as conn:
        assert inspect(conn).has_table("theirs")
        conn.execute(text("DROP TABLE theirs"))


def test_a_running_server_prevents_a_restore(here):
    saved = here.backup()
    assert here.store.leases.acquire("leader", "h1", 60)
    with pytest.raises(ConfigError, match=r"server \(h1\) uses this database"):
        here.restore(saved, force=True)
    here.store.leases.release("leader", "h1")
    here.restore(saved, force=True)


@pytest.mark.parametrize("compressed", [True, False])
@SQLITE
def test_a_truncated_file_changes_nothing(here, compressed):
    saved, before = here.backup(compressed=compressed), rows_of(here.store)
    step = len(saved) // 40
    end = len(saved) if compressed else saved.rindex(b"end.json") + 512  # only zeros follow
    for length in [0, 1, 511, 512, *range(step, end, step), end - 1]:
        with pytest.raises(BrokenBackup):
            here.restore(saved[:length], force=True)
    assert rows_of(here.store) == before


@pytest.mark.parametrize("place", [b"code of 2code of 2", b"grinning", b'"sha256": "', b"\\ud83d\\ude00"])
@SQLITE
def test_a_damaged_file_changes_nothing(here, place):
    saved, before = here.backup(compressed=False), rows_of(here.store)
    at = saved.find(place)
    if at < 0:
        at = saved.index(b"tables/") + 1024
    damaged = saved[:at] + bytes([saved[at] ^ 1]) + saved[at + 1 :]
    with pytest.raises(BrokenBackup):
        here.restore(damaged, force=True)
    assert rows_of(here.store) == before


@SQLITE
def test_any_changed_byte_of_a_compressed_file_is_detected(here):
    """Except for changes that unpack to the same: a repetition may be copied from elsewhere, a header holds a timestamp."""
    saved = here.backup()
    content = gzip.decompress(saved)
    found = 0
    for at in range(20, len(saved), len(saved) // 25):
        damaged = saved[:at] + bytes([saved[at] ^ 0x40]) + saved[at + 1 :]
        try:
            archive.verify(io.BytesIO(damaged))
        except BrokenBackup:
            found += 1
        else:
            assert gzip.decompress(damaged) == content
    assert found > 15


def written(manifest: dict[str, Any], files: dict[str, bytes] | None = None) -> bytes:
    file = io.BytesIO()
    with archive.writing(file, compressed=False) as out:
        out.add_json(archive.MANIFEST, manifest)
        for name, data in (files or {}).items():
            out.add_bytes(name, data)
        out.end([])
    return file.getvalue()


def manifest(**changes: Any) -> dict[str, Any]:
    values = {"format": "sless-backup", "format_version": 1, "schema": "0001", "sless_version": "0", "created_at": AT.isoformat()}
    return {**values, "tables": {}, **changes}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "truncated"),
        (b"hello" * 200, "damaged"),
        (written(manifest(format="tar")), "not a backup of sless"),
        (written(manifest(format_version=2)), "format version 2.*newer sless"),
        (written(manifest(schema="9999")), 'schema "9999"'),
        (written(manifest(), {"code/../../etc/passwd": b"x"}), "code/../../etc/passwd"),
    ],
)
@INTO_SQLITE
def test_other_files_are_refused(there, data, expected):
    with pytest.raises(ConfigError, match=expected):
        there.restore(data)
    assert not dump.has_schema(there.store.database)


def test_a_row_that_does_not_fit_leaves_the_database_unchanged(here, there):
    before = rows_of(here.store)
    with dump.snapshot(here.store.database) as snapshot:
        tables = snapshot.tables()
    orphan = b'["b1", 1, "line"]'
    with pytest.raises(SlessError):
        here.restore(written(manifest(schema=migrate.head(), tables=tables), {"tables/build_logs/000001": orphan}), force=True)
    assert rows_of(here.store) == before


def test_a_backup_from_an_older_version_is_migrated(there):
    with migrate.sole_connection(there.store.database) as conn:
        migrate.upgrade_to(conn, "0001")
        tables = {"tenants": columns_of(conn, "tenants"), "workloads": columns_of(conn, "workloads")}
    rows = {
        "tenants": {"namespace": "ns", "sub": "alice", "limits": "{}", "created_at": AT.isoformat()},
        "workloads": {"id": "w1", "namespace": "ns", "kind": "function", "scope": "callable", "name": "f", "spec": "{}", "generation": 1,
                      "secrets": "plain:{}", "observed_generation": 0, "observed_ready": 0, "observed_message": "",
                      "observed_failing": False, "created_at": AT.isoformat(), "updated_at": AT.isoformat()},
    }  # fmt: skip
    files = {f"tables/{name}/000001": line_of([rows[name].get(column) for column in tables[name]]) for name in tables}
    there.restore(written(manifest(schema="0001", tables=tables), files))
    with there.store.database.read() as conn:
        assert conn.execute(select(workloads.c.name)).scalar_one() == "f"
    there.store.migrate()
    assert there.store.triggers.list_all() == []


def line_of(row: list[Any]) -> bytes:
    return json.dumps(row).encode()


def columns_of(conn: Any, name: str) -> dict[str, str]:
    kinds = {"DATETIME": "time", "TIMESTAMP": "time", "BOOLEAN": "flag", "INTEGER": "int", "BIGINT": "int", "FLOAT": "float"}
    return {item["name"]: kinds.get(str(item["type"]).split("(")[0], "text") for item in inspect(conn).get_columns(name)}


@SQLITE
@INTO_SQLITE
def test_unusable_artifacts_are_rebuilt(here, there):
    assert there.restore(here.backup(), usable=False).builds == 3
    with there.store.database.read() as conn:
        found = conn.execute(select(versions.c.state, versions.c.claimed_by, versions.c.auto_activate, versions.c.attempts)).all()
    assert set(found) == {("queued", None, False, 0)}


@INTO_SQLITE
def test_code_deleted_during_a_backup_is_not_in_it(here, there, tmp_path):
    """The function is deleted after the snapshot, before its code is read: a second snapshot has neither."""

    class Deleting(FolderCodeStore):
        def open(self, key):
            with here.store.database.write() as conn:
                conn.execute(versions.delete().where(versions.c.code_key == key_of(1)))
            here_code.delete(key_of(1))
            return super().open(key)

    here_code = here.code
    here.code = Deleting(here.folder / "code")
    there.restore(here.backup())
    assert sorted(blobs_of(there.folder)) == [f"code/{key_of(0)}", f"code/{key_of(2)}"]
    with there.store.database.read() as conn:
        assert sorted(conn.execute(select(versions.c.code_key)).scalars()) == [key_of(0), key_of(2)]


@SQLITE
@INTO_SQLITE
def test_missing_code_does_not_stop_a_backup(here, there):
    here.code.delete(key_of(1))
    there.restore(here.backup())
    assert any(key_of(1) in line and "missing" in line for line in here.progress)
    assert len(rows_of(there.store)["versions"]) == 3


@INTO_SQLITE
def test_a_snapshot_is_consistent(here, there):
    """Rows written while it is read do not appear in any table."""

    class Busy(FolderCodeStore):
        def open(self, key):
            with here.store.database.write() as conn:
                conn.execute(text("UPDATE workloads SET name = 'changed'"))
                conn.execute(text("UPDATE triggers SET name = id"))
            return super().open(key)

    before = rows_of(here.store)
    here.code = Busy(here.folder / "code")
    there.restore(here.backup())
    assert rows_of(there.store) == before
    assert rows_of(here.store) != before


@SQLITE
@INTO_SQLITE
def test_a_large_backup_uses_little_memory(here, there, tmp_path):
    (tmp_path / "large").write_bytes(b"")
    os.truncate(tmp_path / "large", 40 << 20)
    here.code.put(key_of(1), tmp_path / "large")
    with here.store.database.write() as conn:
        conn.execute(text("UPDATE build_logs SET text = :text"), {"text": "x" * (2 << 20)})
    with (tmp_path / "file").open("wb+") as file:
        tracemalloc.start()
        try:
            here.backup(file, compressed=False)
            target = RestoreTarget(
                store=there.store, code=there.code, folder=there.folder, signing_key=None, is_usable=lambda version: True
            )
            restore(file, target, force=False, report=there.progress.append)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 30 << 20
    assert (there.folder / "code" / key_of(1)).stat().st_size == 40 << 20


@SQLITE
class TestFile:
    """The file that the backup command writes."""

    def settings(self, place: Place) -> Settings:
        return Settings(data_dir=place.folder, database_url=place.url, auth_mode="local", backend="local")

    def test_is_readable_only_by_its_owner_and_appears_atomically(self, here, tmp_path):
        path = tmp_path / "saved.tgz"
        path.write_text("an older one")
        path.chmod(0o644)
        write_backup(self.settings(here), path, here.progress.append)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.read_bytes()[:2] == b"\x1f\x8b"
        assert [item.name for item in tmp_path.iterdir() if item.name.endswith(".part")] == []

    def test_is_unchanged_after_a_failure(self, here, tmp_path):
        path = tmp_path / "saved.tar"
        path.write_text("an older one")
        with here.store.database.write() as conn:
            conn.execute(text("UPDATE alembic_version SET version_num = '0000'"))
        try:
            with pytest.raises(ConfigError, match="sless migrate"):
                write_backup(self.settings(here), path, here.progress.append)
        finally:
            with here.store.database.write() as conn:
                conn.execute(text(f"UPDATE alembic_version SET version_num = '{migrate.head()}'"))
        assert path.read_text() == "an older one"
        assert [item.name for item in tmp_path.iterdir() if item.name.endswith(".part")] == []

    def test_a_missing_folder(self, here, tmp_path):
        with pytest.raises(ConfigError, match="cannot be written"):
            write_backup(self.settings(here), tmp_path / "nowhere" / "x.tar", here.progress.append)


@pytest.mark.parametrize(
    ("backend", "artifact", "usable"),
    [
        ("local", "", True),
        ("local", "deps-here", True),
        ("local", "deps-elsewhere", False),
        ("local", "configmap:code-1", False),
        ("local", "registry.test/ns-f:1", False),
        ("kubernetes", "", False),
        ("kubernetes", "deps-here", False),
        ("kubernetes", "configmap:code-1", True),
        ("kubernetes", "registry.test/ns-f:1", True),
    ],
)
def test_artifacts_that_this_installation_can_use(tmp_path, backend, artifact, usable):
    (tmp_path / "deps" / "deps-here").mkdir(parents=True)
    assert Usable(Settings(data_dir=tmp_path, backend=backend))(make_version(artifact=artifact)) is usable
