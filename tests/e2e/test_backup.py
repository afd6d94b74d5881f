"""`sless backup` and `sless restore`: while the server runs, and from local files to PostgreSQL and S3."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import requests

from tests.services.product import ROOT, Product, new_place, running_product
from tests.services.s3 import ACCESS_KEY, BUCKET, SECRET_KEY

pytestmark = [pytest.mark.xdist_group("backup"), pytest.mark.slow, pytest.mark.timeout(240)]
CODE = "import os\ndef handle(event, context):\n    print('called')\n    return [event, os.environ['GREETING'], context.version]\n"
DEPENDENCIES = "import six\ndef handle(event):\n    return six.__version__\n"


def call(product: Product, path: str) -> tuple[int, str]:
    answer = requests.get(product.url + path, params={"a": "1"}, timeout=60)
    return answer.status_code, answer.text


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The server to save, with tenants of all tests."""
    with running_product(tmp_path_factory.mktemp("old")) as started:
        yield started


def test_a_backup_moves_from_sqlite_and_a_folder_to_postgresql_and_s3(old, tmp_path, postgres_url, s3_server):
    saved = str(tmp_path / "saved.tgz")
    tenant = old.tenant("ada")
    plain = tenant.deploy("plain", CODE, env_vars={"GREETING": "Hi"}, secret_env={"TOKEN": "t0p"})
    tenant.upload("plain", CODE + "# 2")
    tenant.settled("plain", version=2)
    service = tenant.deploy("service", "def handle(event):\n    return 'served'\n", kind="service")
    needs = tenant.deploy("needs", {"handler.py": DEPENDENCIES, "requirements.txt": "six"})
    tenant.post("jobs", {"name": "job", "function_ref": "plain", "event_json": {"b": 2}, "run_id": 1})
    ended = tenant.ended_job("job")
    paths = (plain, service, needs)
    before = [call(old, path) for path in paths]
    stop = threading.Event()
    errors: list[int] = []

    def load() -> None:
        while not stop.is_set():
            status, _ = call(old, plain)
            errors.extend([status] if status != 200 else [])
            stop.wait(0.02)

    thread = threading.Thread(target=load)
    thread.start()
    done = old.place.run("backup", saved)
    stop.set()
    thread.join()
    assert (done.returncode, errors) == (0, []), done.stderr
    refused = old.place.sless("restore", saved)
    assert refused.returncode == 1
    assert "in use by another sless server" in refused.stderr
    keys = (old.place.data_dir / "encryption-keys").read_text().strip()
    tenant.leave()
    assert os.stat(saved).st_mode & 0o777 == 0o600

    settings = {
        "SLESS_DATABASE_URL": postgres_url, "SLESS_S3_ENDPOINT": f"http://{s3_server.endpoint}", "SLESS_S3_BUCKET": BUCKET,
        "SLESS_S3_ACCESS_KEY": ACCESS_KEY, "SLESS_S3_SECRET_KEY": SECRET_KEY,
    }  # fmt: skip
    with new_place(tmp_path / "two") as place:
        new = Product(place, **settings, SLESS_ENCRYPTION_KEYS=keys)
        done = place.sless("restore", saved)
        assert done.returncode == 0, done.stderr
        assert "will be rebuilt" in done.stderr  # the dependencies of `needs` are installed on the old machine only
        again = place.sless("restore", saved)
        assert (again.returncode, "not empty" in again.stderr) == (1, True)
        try:
            new.start()
            ada = new.tenant("ada")
            assert requests.get(f"{new.url}/v1/whoami", headers={"Authorization": f"Bearer {tenant.token}"}, timeout=30).status_code == 200
            assert [call(new, path) for path in paths] == before
            assert before[0] == (200, '[{"a": "1"}, "Hi", 2]')
            assert ada.get("jobs/job").json()["message"] == ended["message"]
            assert [item["number"] for item in ada.get("functions/plain/versions").json()] == [2, 1]
            assert ada.get("functions/plain/versions/1").json()["state"] == "ready"
            assert len(ada.get("functions/plain/invocations").json()) > 1
            # The restored installation is complete: new versions, rollback, history.
            assert ada.post("functions/plain/versions/1/activate").status_code == 200
            ada.upload("plain", CODE + "# 3")
            assert ada.settled("plain", version=3)["active_version"] == 3
        finally:
            new.close()


def test_a_backup_and_a_restore_work_through_a_pipe(old, tmp_path):
    path = old.tenant("grace").deploy("plain", CODE, env_vars={"GREETING": "Hi"})
    with (tmp_path / "file").open("wb") as file:
        assert old.place.popen("backup", "-", stdout=file).wait(90) == 0
    key = (old.place.data_dir / "encryption-keys").read_bytes()
    data = (tmp_path / "file").read_bytes()
    assert data[257:262] == b"ustar"
    with new_place(tmp_path / "two") as place:
        place.data_dir.mkdir(parents=True)
        (place.data_dir / "encryption-keys").write_bytes(key)
        command = [sys.executable, str(ROOT / "sless.py"), "restore", "-"]
        # Restoring reads its input twice, which a pipe does not allow.
        done = subprocess.run(command, input=data, env=place.environ, capture_output=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        new = Product(place)
        try:
            assert call(new.start(), path) == (200, '[{"a": "1"}, "Hi", 1]')
        finally:
            new.close()
