"""Secrets in both databases: encrypted in every column that holds them, rotated in steps, and never without the right key."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from sless import clock
from sless.domain.model import Kind, TriggerType
from sless.domain.notice import NoticeEvent
from sless.errors import ConfigError, SlessError
from sless.store import FixedKeys, Keyring, Store, id_of_key, migrate, open_store
from sless.store.notices import notify
from sless.store.sealed import sealed_columns
from tests.builders import NAMESPACE, make_run, make_workload_spec

# Not random: parametrized tests name them.
OLD, NEW, OTHER = (base64.urlsafe_b64encode(digit * 32).decode() for digit in (b"1", b"2", b"3"))
PLANTED = "pl4nted-s3cret"


def keyring(*keys: str) -> Keyring:
    return Keyring(FixedKeys(keys))


def plant(store: Store, name: str = "hello") -> str:
    """A secret in each encrypted column. Returns the id of the workload."""
    store.tenants.ensure(NAMESPACE, "somebody")
    secret = {"A": PLANTED}
    workload = store.workloads.insert(NAMESPACE, Kind.FUNCTION, name, make_workload_spec(env_vars=secret, secret_env=secret))
    store.versions.insert(
        workload.id, sha256="0", code_hash=None, runtime="python3.11", entrypoint="handler.handle", code_key="k", size_bytes=1,
        build_env=secret,
    )  # fmt: skip
    store.triggers.insert(NAMESPACE, name=name, type=TriggerType.EVENT, function_ref=name, secrets={"amqp_url": PLANTED})
    store.callbacks.keys(NAMESPACE)
    url = f"https://example.com/?key={PLANTED}"
    store.notices.set_url(NAMESPACE, url)
    with store.database.write() as conn:
        notify(store.database, conn, NAMESPACE, NoticeEvent.BUILD_FAILED, once=(name,), facts={})
    run = make_run(workload_id=workload.id, callback_url=url)
    store.runs.insert(run)
    store.runs.cancel(run.id)
    return workload.id


def stored(store: Store) -> dict[str, list[str]]:
    with store.database.read() as conn:
        return {
            str(column): [row[0] for row in conn.execute(text(f"SELECT {column.name} FROM {column.table.name}"))]
            for column in sealed_columns()
        }


def read(store: Store, workload_id: str) -> list[Any]:
    workload = store.workloads.get_by_id(workload_id)
    return [
        workload.spec.env_vars, workload.spec.secret_env, store.versions.get(workload_id, 1).build_env,
        [item.secrets for item in store.triggers.list_all()], store.callbacks.keys(NAMESPACE), store.notices.find_url(NAMESPACE),
        [item.url for item in (*store.notices.list_in(NAMESPACE), *store.callbacks.list_due(clock.now(), 9))],
    ]  # fmt: skip


def test_every_secret_column_is_encrypted_and_read_back(make_store):
    store = make_store(keyring=keyring(NEW))
    workload_id = plant(store)
    columns = stored(store)
    assert set(columns) == {
        "callbacks.url", "notices.url", "runs.callback_url", "tenants.callback_keys", "tenants.notify_url", "triggers.secrets",
        "versions.build_env", "workloads.secrets",
    }  # fmt: skip
    assert all(values for values in columns.values())
    assert all(value.startswith(f"fernet:{id_of_key(NEW)}:") for values in columns.values() for value in values)
    assert read(store, workload_id)[0] == {"A": PLANTED}
    assert read(make_store(keyring=keyring(NEW)), workload_id) == read(store, workload_id)


def test_rotation_is_resumed_while_others_write(make_store):
    before = make_store(keyring=keyring(OLD, NEW))
    ids = [plant(before, f"f{number}") for number in range(3)]
    # A process that was interrupted had rewritten some rows; a server still writes with the old key.
    half = make_store(keyring=keyring(NEW, OLD))
    half.workloads.update_spec(ids[0], make_workload_spec(secret_env={"A": "changed"}))
    assert half.sealed.key_ids() == {id_of_key(NEW), id_of_key(OLD)}
    progress: list[tuple[int, int]] = []
    assert half.sealed.rotate(lambda done, total: progress.append((done, total))) == 19
    assert progress[-1] == (19, 19)
    assert (half.sealed.is_rotated(), half.sealed.rotate()) == (True, 0)
    plant(before, "later")
    assert (half.sealed.is_rotated(), half.sealed.rotate(), half.sealed.is_rotated()) == (False, 7, True)
    after = make_store(keyring=keyring(NEW))
    assert after.workloads.get_by_id(ids[0]).spec.secret_env == {"A": "changed"}
    assert after.workloads.get_by_id(ids[1]).spec.secret_env == {"A": PLANTED}


class _Interleaved(Keyring):
    """Calls `meanwhile` between reading a value and writing it anew."""

    meanwhile: Callable[[], None] | None = None

    def open(self, stored: str) -> str:
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return super().open(stored)


def test_a_value_that_changes_during_the_rotation_is_not_overwritten(make_store):
    server = make_store(keyring=keyring(OLD))
    workload_id = plant(server)
    ring = _Interleaved(FixedKeys([NEW, OLD]))
    rotating = make_store(keyring=ring)
    ring.meanwhile = lambda: server.workloads.update_spec(workload_id, make_workload_spec(secret_env={"A": "newest"})) and None
    rotating.sealed.rotate()
    assert rotating.sealed.is_rotated()
    assert rotating.workloads.get_by_id(workload_id).spec.secret_env == {"A": "newest"}


def test_plain_values_of_an_older_version_are_read_and_encrypted(make_store, database_url):
    plain = make_store(keyring=Keyring())
    workload_id = plant(plain)
    assert json.loads(stored(plain)["workloads.secrets"][0].removeprefix("plain:"))["secret_env"] == {"A": PLANTED}
    store = make_store(keyring=keyring(NEW))
    before = read(store, workload_id)
    assert (store.sealed.encrypt_plain(), store.sealed.encrypt_plain()) == (8, 0)
    assert read(store, workload_id) == before
    assert not [value for values in stored(store).values() for value in values if PLANTED in value]
    if database_url.startswith("sqlite"):
        plain.close()
        store.close()
        path = Path(database_url.removeprefix("sqlite:///"))
        # Also not in pages that the old values left behind.
        assert [file.name for file in path.parent.glob(f"{path.name}*") if PLANTED.encode() in file.read_bytes()] == []


def test_urls_stored_as_plain_text_are_encrypted(empty_database_url):
    url = f"https://example.com/?key={PLANTED}"
    store = open_store(empty_database_url, keyring=keyring(NEW))
    try:
        with migrate.sole_connection(store.database) as conn:
            migrate.upgrade_to(conn, "0010")
            values = {"namespace": NAMESPACE, "sub": "s", "limits": "{}", "url": url, "at": clock.now().isoformat(" ")}
            for namespace, value in ((NAMESPACE, ":url"), ("quiet", "NULL")):
                insert = "INSERT INTO tenants (namespace, sub, limits, created_at, notify_url) VALUES (:namespace, :sub, :limits, :at,"
                conn.execute(text(f"{insert} {value})"), values | {"namespace": namespace})
        store.migrate()
        assert (store.notices.find_url(NAMESPACE), store.notices.find_url("quiet")) == (url, None)
        assert store.sealed.encrypt_plain() == 1
        assert [value[:7] for value in stored(store)["tenants.notify_url"] if value] == ["fernet:"]
        assert store.notices.find_url(NAMESPACE) == url
    finally:
        store.close()


def test_a_missing_key_is_named(make_store):
    make_store(keyring=keyring(OLD)).sealed.check("the file")
    workload_id = plant(make_store(keyring=keyring(OLD)))
    for keys, have in (((), "has none"), ((OTHER,), f"has {id_of_key(OTHER)}")):
        store = make_store(keyring=keyring(*keys))
        with pytest.raises(ConfigError, match=f"encrypted with key {id_of_key(OLD)}, but the file {have}: add the missing key"):
            store.sealed.check("the file")
        with pytest.raises(SlessError, match=id_of_key(OLD)):
            store.workloads.get_by_id(workload_id)


@pytest.mark.parametrize(("value", "message"), [("rot13:abc", 'scheme "rot13"'), (f"fernet:{id_of_key(NEW)}:gAAAA", "damaged")])
def test_a_value_that_cannot_be_read_is_an_error(value, message):
    with pytest.raises(SlessError, match=message) as caught:
        keyring(NEW).open(value)
    assert NEW not in str(caught.value)


@pytest.mark.parametrize("key", ["short", "x" * 44, NEW[:-2], "ä" * 44])
def test_an_invalid_key_is_refused_without_repeating_it(key):
    with pytest.raises(ConfigError, match=f"key 2: expected 32 bytes in URL-safe base64 .44 characters., found {len(key)}") as caught:
        keyring(NEW, key)
    assert key not in str(caught.value)


def test_values_are_decrypted_once():
    ring = keyring(NEW)
    sealed = [ring.seal(f"{number}") for number in range(3)]
    assert [ring.open(item) for item in sealed] == ["0", "1", "2"]
    assert len({ring.seal("same") for _ in range(3)}) == 3, "equal secrets have different ciphertexts"
