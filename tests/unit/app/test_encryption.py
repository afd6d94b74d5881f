"""Encryption keys: created once, kept, read from settings or a file, and rotated while a server runs."""

import threading
from pathlib import Path

import pytest

from sless.app.database import migrate, open_encrypted, rotate
from sless.app.encryption import KEY_FILE, KeyFile, key_source_of
from sless.config import Settings, load, shown
from sless.domain.model import Kind
from sless.errors import ConfigError
from sless.store import id_of_key, new_key
from tests.builders import NAMESPACE, make_workload_spec


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", auth_mode="local", backend="local")


def keys_in(settings: Settings) -> list[str]:
    return (settings.data_dir / KEY_FILE).read_text().split()


def with_keys(settings: Settings, *keys: str) -> Settings:
    return load({"SLESS_ENCRYPTION_KEYS": ",".join(keys)}, data_dir=settings.data_dir, auth_mode="local", backend="local")


def plant(settings: Settings, name: str = "hello") -> None:
    store = open_encrypted(settings)
    store.tenants.ensure(NAMESPACE, "somebody")
    store.workloads.insert(NAMESPACE, Kind.FUNCTION, name, make_workload_spec(secret_env={"A": "b"}))
    store.close()


def secret_of(settings: Settings, name: str = "hello") -> str:
    store = open_encrypted(settings)
    try:
        return store.workloads.get(NAMESPACE, Kind.FUNCTION, name).spec.secret_env["A"]
    finally:
        store.close()


def test_the_first_start_creates_a_private_key_file_and_later_starts_keep_it(settings):
    migrate(settings)
    keys = keys_in(settings)
    assert (settings.data_dir / KEY_FILE).stat().st_mode & 0o777 == 0o600
    plant(settings)
    migrate(settings)
    assert keys_in(settings) == keys and len(keys) == 1
    assert secret_of(settings) == "b"


def test_servers_that_start_at_the_same_time_agree(tmp_path):
    threads = [threading.Thread(target=KeyFile(tmp_path / KEY_FILE).ensure) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(KeyFile(tmp_path / KEY_FILE).read()) == 1
    assert [item.name for item in tmp_path.iterdir()] == [KEY_FILE]


def test_a_lost_key_file_is_an_error_and_not_replaced(settings):
    migrate(settings)
    plant(settings)
    path = settings.data_dir / KEY_FILE
    key = path.read_text().strip()
    path.rename(path.with_suffix(".lost"))
    with pytest.raises(ConfigError, match=f"the database is encrypted with key {id_of_key(key)}, but {path} has none: add"):
        migrate(settings)
    assert not path.exists()
    with pytest.raises(ConfigError, match=f"{path} cannot be read: No such file"):
        open_encrypted(settings)
    assert secret_of(with_keys(settings, key)) == "b"


def test_a_wrong_key_is_an_error_at_start(settings):
    migrate(settings)
    plant(settings)
    other = new_key()
    with pytest.raises(ConfigError, match=f"but SLESS_ENCRYPTION_KEYS has {id_of_key(other)}: add the missing key"):
        migrate(with_keys(settings, other))


@pytest.mark.parametrize("content", ["", "abc\n", "\udcff"])
def test_a_damaged_key_file_is_an_error(settings, content):
    settings.data_dir.mkdir()
    (settings.data_dir / KEY_FILE).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=r"SLESS_ENCRYPTION_KEYS: .*(is empty|key 1: expected 32 bytes|not text)"):
        migrate(settings)


def test_a_cluster_needs_keys_in_its_settings(tmp_path):
    with pytest.raises(ConfigError, match="SLESS_ENCRYPTION_KEYS: required with SLESS_BACKEND=kubernetes"):
        key_source_of(Settings(data_dir=tmp_path, backend="kubernetes", auth_mode="secret"))


def test_keys_are_hidden(settings):
    key = new_key()
    assert ("SLESS_ENCRYPTION_KEYS", "(set)") in [row[:2] for row in shown(with_keys(settings, key))]


def test_a_rotation_adds_a_key_and_a_running_server_follows(settings):
    migrate(settings)
    plant(settings)
    (old,) = keys_in(settings)
    server = open_encrypted(settings)
    lines: list[str] = []
    rotate(settings, lines.append)
    new, kept = keys_in(settings)
    assert kept == old
    assert lines[-1] == f"Encrypted 1 values with key {id_of_key(new)}; older keys are only needed for backups made before"
    assert server.workloads.get(NAMESPACE, Kind.FUNCTION, "hello").spec.secret_env == {"A": "b"}
    server.workloads.insert(NAMESPACE, Kind.FUNCTION, "later", make_workload_spec(secret_env={"A": "c"}))
    assert server.sealed.key_ids() == {id_of_key(new)}
    server.close()
    assert secret_of(with_keys(settings, new), "later") == "c"


def test_an_interrupted_rotation_is_continued_without_another_key(settings):
    migrate(settings)
    plant(settings)
    KeyFile(settings.data_dir / KEY_FILE).add()  # killed here
    rotate(settings, lambda _text: None)
    assert len(keys_in(settings)) == 2
    assert secret_of(with_keys(settings, keys_in(settings)[0])) == "b"


def test_with_keys_in_the_settings_the_first_is_used(settings):
    old, new = new_key(), new_key()
    migrate(with_keys(settings, old))
    plant(with_keys(settings, old))
    rotate(with_keys(settings, new, old), lambda _text: None)
    assert secret_of(with_keys(settings, new)) == "b"
    assert not (settings.data_dir / KEY_FILE).exists()
