"""The audit trail has commands that change the installation without the REST interface; operators can read all of it."""

import os
import time
from pathlib import Path

import pytest

from sless.app.database import migrate, open_encrypted
from sless.cli import main
from sless.config import Settings
from tests.contract.rest_harness import OPERATOR, Rest
from tests.contract.test_gc import upload


def test_restore_gc_and_rotate_keys_have_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(data_dir=tmp_path / "one", auth_mode="local", backend="local", run_dir=tmp_path / "run")
    migrate(settings)
    key = upload(settings, tmp_path, version=False)
    (blob,) = (path for path in (settings.data_dir / "code").rglob("*") if path.name == key.rpartition("/")[2])
    os.utime(blob, (time.time() - 86400,) * 2)
    place = ("--data-dir", str(settings.data_dir))
    for command in (("gc", "--dry-run"), ("gc",), ("gc",), ("rotate-keys",), ("backup", str(tmp_path / "b.tgz"))):
        assert main([*command, *place]) == 0, capsys.readouterr().err
    assert main(["restore", "--force", str(tmp_path / "b.tgz"), *place]) == 0, capsys.readouterr().err
    store = open_encrypted(settings)
    restored, rotated, collected = store.audit.list_in(None)
    store.close()
    assert [entry.action for entry in (restored, rotated, collected)] == [
        "installation.restore",
        "installation.rotate_keys",
        "installation.gc",
    ]
    assert collected.changes == ({"field": "removed", "from": None, "to": 1},) and restored.changes[0]["field"] == "backup_of"
    for entry in (restored, rotated, collected):
        assert entry.sub.startswith("shell:") and entry.address and entry.request_id and entry.namespace == ""


def test_operators_read_the_trail_of_all(rest: Rest) -> None:
    rest.function("hello")
    rest.post(f"/v1/namespaces/{rest.get('/v1/whoami', sub='bob').json['namespace']}/ensure", sub="bob")
    rest.put(f"/v1/operator/allowed-code/{'a' * 64}", {}, sub=OPERATOR)
    found = rest.get("/v1/operator/audit", sub=OPERATOR).json
    assert [(item["namespace"] == rest.namespace, item["action"]) for item in found] == [
        (False, "code.allow"), (False, "namespace.create"), (True, "function.create"), (True, "namespace.create"),
    ]  # fmt: skip
    assert found[0]["namespace"] == "" and found[0]["sub"] == OPERATOR
    assert [item["action"] for item in rest.get("/v1/operator/audit?name=hello", sub=OPERATOR).json] == ["function.create"]
    first = rest.get("/v1/operator/audit?limit=1", sub=OPERATOR)
    assert rest.get(first.headers["Link"].split(">")[0][1:], sub=OPERATOR).json[0]["id"] < first.json[0]["id"]
    assert {item["namespace"] for item in rest.get("audit").json} == {rest.namespace}
