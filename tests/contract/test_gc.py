"""`sless gc`: removes unreferenced data of its own installation only."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from sless import ids
from sless.app import gc
from sless.app.database import migrate, open_encrypted
from sless.code import open_code_store
from sless.code.folder import is_owned, new_code_key
from sless.config import Settings
from sless.domain.model import Kind, VersionState
from tests.builders import NAMESPACE, make_workload_spec
from tests.contract.test_code_store import s3_settings

NOW = timedelta(0)
SHA = "a" * 64


@pytest.fixture(params=["folder", "s3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A migrated installation."""
    plain = Settings(data_dir=tmp_path / "one", auth_mode="local", backend="local", run_dir=tmp_path / "run")
    made = plain if request.param == "folder" else s3_settings(
        request.getfixturevalue("s3_server"), plain.data_dir, backend="local", run_dir=tmp_path / "run"  # type: ignore[arg-type]
    )  # fmt: skip
    migrate(made)
    return made


def upload(settings: Settings, tmp_path: Path, *, version: bool) -> str:
    """Stores code as an upload does; without `version`, as if the server was killed right afterwards. Returns the key."""
    store = open_encrypted(settings)
    installation = store.meta_ensure("installation", ids.new_id(8))
    store.tenants.ensure(NAMESPACE, "s")
    workload = store.workloads.find_callable(NAMESPACE, "hello") or store.workloads.insert(
        NAMESPACE, Kind.FUNCTION, "hello", make_workload_spec()
    )  # fmt: skip
    key = new_code_key(NAMESPACE, workload.id, SHA, installation)
    blob = tmp_path / "blob"
    blob.write_bytes(b"zip")
    open_code_store(settings).put(key, blob)
    if version:
        made = store.versions.insert(
            workload.id, sha256=SHA, code_hash=None, runtime="python3.11", entrypoint="handler.handle", code_key=key, size_bytes=3,
            build_env={},
        )  # fmt: skip
        store.versions.claim(made.id, "h")
        store.versions.finish(made.id, state=VersionState.READY)
    store.close()
    return key


def keys(settings: Settings) -> set[str]:
    return {blob.key for blob in open_code_store(settings).list_blobs()}


def test_only_code_without_a_version_is_removed(settings: Settings, tmp_path: Path) -> None:
    kept, lost = upload(settings, tmp_path, version=True), upload(settings, tmp_path, version=False)
    assert gc.collect(settings, dry_run=False) == []  # too young
    (found,) = gc.collect(settings, dry_run=True, young=NOW)
    assert (found.kind, found.name, found.size_bytes) == ("code", lost, 3)
    assert {kept, lost} <= keys(settings)
    gc.collect(settings, dry_run=False, young=NOW)
    assert kept in keys(settings) and lost not in keys(settings)
    assert gc.collect(settings, dry_run=True, young=NOW) == []


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """For sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="sl-", dir="/tmp") as folder:
        yield Path(folder)


def test_another_installation_in_the_same_bucket_is_safe(s3_server, tmp_path: Path, short_folder: Path) -> None:
    one, other = (s3_settings(s3_server, tmp_path / name, backend="local", run_dir=short_folder / name) for name in ("one", "other"))
    for each in (one, other):
        migrate(each)
    theirs = upload(other, tmp_path, version=False)
    old = f"{NAMESPACE}/w1/{SHA}-abcdefgh.zip"  # of a version that did not name its installation
    open_code_store(one).put(old, tmp_path / "blob")
    assert gc.collect(one, dry_run=False, young=NOW) == []
    assert {theirs, old} <= keys(one)
    assert [item.name for item in gc.collect(other, dry_run=False, young=NOW)] == [theirs]
    open_code_store(one).delete(old)


def test_dependencies_of_removed_versions_are_removed(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "one", auth_mode="local", backend="local", run_dir=tmp_path / "run")
    migrate(settings)
    upload(settings, tmp_path, version=True)
    store = open_encrypted(settings)
    workload = store.workloads.find_callable(NAMESPACE, "hello")
    assert workload is not None
    with store.database.write() as conn:
        from sqlalchemy import update

        from sless.store.tables import versions

        conn.execute(update(versions).values(artifact="deps-1"))
    store.workloads.mark_deleted(workload.id)
    store.workloads.remove(workload.id)
    store.close()
    assert {item.kind for item in gc.collect(settings, dry_run=True, young=NOW)} == {"code", "artifact"}
    gc.collect(settings, dry_run=False, young=NOW)
    assert gc.collect(settings, dry_run=True, young=NOW) == []
    shutil.rmtree(settings.data_dir)


def test_unpacked_zipapps_of_earlier_builds_are_removed_unless_they_run(settings: Settings, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    for name in ("sless.pyz_one", "sless.pyz_runs", "other.pyz_one"):
        (root / name / "site-packages").mkdir(parents=True)
    zipapp = tmp_path / "sless.pyz", root
    with (root / ".sless.pyz_runs_used").open("a") as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        for dry_run in (True, False):
            (found,) = gc.collect(settings, dry_run=dry_run, zipapp=zipapp)
            assert (found.kind, found.name) == ("zipapp", str(root / "sless.pyz_one"))
            assert (root / "sless.pyz_one").exists() == dry_run
    assert sorted(path.name for path in root.iterdir() if path.is_dir()) == ["other.pyz_one", "sless.pyz_runs"]
    assert [item.name for item in gc.collect(settings, dry_run=False, zipapp=zipapp)] == [str(root / "sless.pyz_runs")]
    assert gc.collect(settings, dry_run=True, zipapp=(tmp_path / "sless.pyz", tmp_path / "none")) == []


def test_a_key_names_its_installation() -> None:
    key = new_code_key(NAMESPACE, "w1", SHA, "i2345678")
    assert is_owned(key, "i2345678") and not is_owned(key, "x2345678")
    assert not is_owned(new_code_key(NAMESPACE, "w1", SHA), "i2345678")
