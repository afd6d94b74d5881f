"""Planted secrets appear in no file of the data folder, no backup, log, answer or error page of a running server."""

import json
import tarfile
from pathlib import Path

import pytest

from sless.app.encryption import KEY_FILE
from tests.services.product import Product, Tenant, new_place, wait_until

PLANTED = {name: f"pl4nted-{name}-s3cret" for name in ("secret-env", "build-env", "broker", "setting", "env", "callback", "notify")}
READABLE = {PLANTED[name] for name in ("env", "callback", "notify")}
"""For the tenant itself, so not among the secrets of answers."""
HANDLER = "import os\ndef handle(event):\n    assert len(os.environ['TOKEN']) > 10 and not event\n    return 'ok'\n"
BROKEN = "import os, nothing_of_this_name\ndef handle(event):\n    pass\n"


def fill(tenant: Tenant) -> list[str]:
    """A ready function with successful and failed calls, a broken one, a job, triggers. Returns further secrets that the server created."""
    fields = {
        "secret_env": {"TOKEN": PLANTED["secret-env"]}, "build_env": {"INDEX_TOKEN": PLANTED["build-env"]},
        "env_vars": {"PLAIN": PLANTED["env"]},
    }  # fmt: skip
    path = tenant.deploy("works", {"handler.py": HANDLER, "requirements.txt": "six"}, **fields)
    tenant.create("broken", **fields)
    tenant.upload("broken", {"handler.py": BROKEN, "requirements.txt": "six"})
    assert tenant.settled("broken")["phase"] == "Failed"
    url = f"amqp://user:{PLANTED['broker']}@127.0.0.1:1/vhost"
    created = tenant.post("triggers", {"name": "queue", "type": "event", "function_ref": "works", "queue": "q", "amqp_url": url})
    assert created.status_code == 201, created.text
    tenant.deploy("keyed", "def handle(event):\n    return 'ok'\n", http=False)
    keyed = tenant.post("triggers", {"name": "keyed", "type": "http", "function_ref": "keyed", "auth": "key"}).json()
    tenant.post("jobs", {"name": "job", "runtime": "python3.11", "run_id": 1, **fields})
    tenant.post("jobs/job/upload", {"files": {"handler.py": HANDLER}})
    tenant.ended_job("job")
    notify = {"notify_url": f"http://127.0.0.1:1/?key={PLANTED['notify']}"}
    assert tenant.call("PUT", "notifications", json=notify).status_code == 200
    assert tenant.get(path).text == "ok"
    assert tenant.post(path, {"fails": True}).status_code == 500
    headers = {
        "Prefer": "respond-async", "X-Sless-Max-Attempts": "1", "X-Sless-Callback-Url": f"http://127.0.0.1:1/{PLANTED['callback']}?k=1",
    }  # fmt: skip
    dead = tenant.post("functions/works/invoke", {"fails": True}, headers=headers).json()["id"]
    assert tenant.ended_call("works", dead)["status"] == "dead"
    wait_until(lambda: "could not be reached" in str(tenant.invocation("works", dead)["callback"]["error"]), "the callback was tried")
    return [keyed["api_key"], tenant.get("callback-key").json()["key"]]


def answers_of(tenant: Tenant) -> str:
    """Everything that a tenant can read, and errors for bad requests that contain names of secrets."""
    works = [f"functions/works{path}" for path in ("", "/versions", "/versions/1", "/logs", "/invocations")]
    broken = [f"functions/broken{path}" for path in ("", "/versions/1", "/logs")]
    triggers = [f"triggers{path}" for path in ("", "/queue", "/keyed")]
    others = ["functions", "functions/nothing", "jobs", "jobs/job", "jobs/job/logs", "usage", "/funcs", "/metrics"]
    paths = [*works, *broken, *triggers, *others]
    texts = [tenant.get(path).text for path in paths]
    texts.append(tenant.patch("functions/works", {"secret_env": {"TOKEN": 5}, "build_env": [PLANTED["build-env"] != ""]}).text)
    texts.append(tenant.patch("triggers/queue", {"amqp_url": f"ampq://user:{PLANTED['broker']}@x"}).text)
    texts.append(tenant.post("functions", {"name": "works", "secret_env": {"not a name": PLANTED["secret-env"]}}).text)
    shown = json.loads(tenant.get("functions/works").text)
    assert shown["env_vars"] == {"PLAIN": PLANTED["env"]}
    return "\n".join(texts)


def files_with(folder: Path, secrets: list[str]) -> list[str]:
    files = [item for item in folder.rglob("*") if item.is_file() and not item.is_symlink()]
    return [f"{item.relative_to(folder)}: {text}" for item in files for text in secrets if text.encode() in item.read_bytes()]


def members_with(backup: Path, secrets: list[str]) -> list[str]:
    with tarfile.open(backup) as tar:
        contents = {item.name: tar.extractfile(item).read() for item in tar}  # type: ignore[union-attr]
    assert "end.json" in contents
    return [f"{name}: {text}" for name, content in contents.items() for text in secrets if text.encode() in content]


@pytest.mark.slow
def test_planted_secrets_are_found_nowhere(start_product, tmp_path):
    product: Product = start_product(
        SLESS_RABBITMQ_URL=f"amqp://u:{PLANTED['setting']}@127.0.0.1:1/", SLESS_LOG_LEVEL="debug", SLESS_OUTBOUND_ALLOW="127.0.0.0/8"
    )
    tenant = product.tenant("ada")
    created = fill(tenant)
    assert all(created), "the server returned the key of the trigger and that of callbacks"
    secrets = [*PLANTED.values(), *created]
    hidden = [text for text in secrets if text not in READABLE]
    text = answers_of(tenant)
    assert [item for item in hidden if item in text] == []
    assert [item for item in secrets if item in product.log] == []
    assert files_with(product.place.data_dir, secrets) == []
    assert files_with(product.place.run_dir, secrets) == []

    saved = tmp_path / "saved.tgz"
    done = product.place.sless("backup", str(saved))
    key_file = product.place.data_dir / KEY_FILE
    assert done.returncode == 0 and "A restore needs encryption key " in done.stderr
    assert members_with(saved, [*secrets, key_file.read_text().strip()]) == []

    rotated = product.place.sless("rotate-keys")
    assert (rotated.returncode, "Encrypted " in rotated.stderr) == (0, True), rotated.stderr
    assert tenant.get(f"/fn/{tenant.namespace}/works").text == "ok"
    tenant.patch("functions/works", {"secret_env": {"TOKEN": PLANTED["secret-env"]}})
    assert files_with(product.place.data_dir, secrets) == []
    config = product.place.sless("config").stdout
    assert [item for item in secrets if item in config] == []

    with new_place(tmp_path / "other") as place:
        place.data_dir.mkdir(parents=True)
        refused = place.sless("restore", str(saved))
        assert refused.returncode == 1
        assert "the backup is encrypted with key" in refused.stderr and "Traceback" not in refused.stderr
        restored = place.sless("restore", str(saved), SLESS_ENCRYPTION_KEYS=key_file.read_text().split()[-1])
        assert restored.returncode == 0, restored.stderr
