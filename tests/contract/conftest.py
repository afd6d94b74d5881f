"""Fixtures for both databases: a test that uses `store` runs on SQLite and on PostgreSQL."""

import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from sless.domain.model import Kind, Workload
from sless.store import Store, open_store
from tests.builders import KEYRING, NAMESPACE, make_workload_spec
from tests.contract.rest_harness import Rest

DATABASES = ("sqlite", "postgresql")
ABOVE_THE_STORE = ("test_rest_", "test_views", "test_callbacks_loop", "test_console")
"""Modules that use a store but do not test it: each test runs on one of the databases, with `make soak` on both."""
# Three times as fast as TRUNCATE, four times as fast as a new database from a template: the tables hold a few rows at most.
EMPTY_EVERY_TABLE = """
DO $$
DECLARE
    item record;
BEGIN
    SET LOCAL session_replication_role = replica;  -- no foreign keys
    FOR item IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version' LOOP
        EXECUTE format('DELETE FROM %I', item.tablename);
    END LOOP;
    PERFORM setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) FROM pg_sequences;
    INSERT INTO revisions (name, value) VALUES ('routes', 1), ('triggers', 1);
END $$
"""

MakeStore = Callable[..., Store]


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "template.db"
    store = open_store(f"sqlite:///{path}")
    store.migrate()
    store.close()
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server) -> str:
    url = postgres_server.create_database()
    store = open_store(url)
    store.migrate()
    store.close()
    return url


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    named = {name for mark in metafunc.definition.iter_markers("parametrize") for name in re.split(r"[\s,]+", str(mark.args[0]))}
    if "database_url" in metafunc.fixturenames and "database_url" not in named:
        metafunc.parametrize("database_url", databases_for(metafunc.definition), indirect=True)


def databases_for(test: pytest.Item) -> tuple[str, ...]:
    if "TEST_SOAK_MESSAGES" in os.environ or not test.path.name.startswith(ABOVE_THE_STORE):
        return DATABASES
    return (DATABASES[zlib.crc32(test.name.encode()) % len(DATABASES)],)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A migrated, empty database."""
    if request.param == "sqlite":
        path = tmp_path / "sless.db"
        shutil.copyfile(request.getfixturevalue("migrated_sqlite"), path)
        return f"sqlite:///{path}"
    url: str = request.getfixturevalue("migrated_postgres")
    with psycopg.connect(url) as connection:
        connection.execute(EMPTY_EVERY_TABLE)
    return url


@pytest.fixture(params=DATABASES)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'folder' / 'sless.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def make_store(database_url: str) -> Iterator[MakeStore]:
    """Opens as many stores on one database as a test needs, each like a separate server."""
    opened: list[Store] = []

    def make(**options: object) -> Store:
        store = open_store(database_url, **{"durable": False, "keyring": KEYRING} | options)  # type: ignore[arg-type]
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    """A store with the tenant NAMESPACE."""
    store = make_store()
    store.tenants.ensure(NAMESPACE, "somebody")
    return store


@pytest.fixture
def workload(store: Store) -> Workload:
    """The function `hello`, without code."""
    return store.workloads.insert(NAMESPACE, Kind.FUNCTION, "hello", make_workload_spec())


@pytest.fixture
def rest(make_store: MakeStore, tmp_path: Path) -> Rest:
    """The REST interface of one tenant, on both databases."""
    return Rest(make_store(), tmp_path / "data")
