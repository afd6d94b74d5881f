"""The last container of a builder pod: runs its source as the pod does against a real registry."""

import base64
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from sless.builder import push_image
from tests.kube.oci_layout import write_layout
from tests.services.registry import PASSWORD, USER, RegistryServer


def write_config(folder: Path, host: str, password: str = PASSWORD) -> Path:
    path = folder / "config.json"
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    path.write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    return path


def push(folder: Path, host: str, config: Path, name: str = "functions/hello:t1") -> "subprocess.CompletedProcess[str]":
    words = [str(folder), f"{host}/{name}", f"http://{host}", str(config), host]
    source = inspect.getsource(push_image)
    return subprocess.run([sys.executable, "-E", "-c", source, *words], capture_output=True, text=True, check=False)


def test_a_layout_is_pushed_with_its_layers(registry_server: RegistryServer, tmp_path: Path):
    digest = write_layout(tmp_path / "layout", layers=(b"x" * 3_000_000, b"second"))
    config = write_config(tmp_path, registry_server.host)
    for _ in range(2):  # the second time, the registry already has all blobs
        done = push(tmp_path, registry_server.host, config)
        assert done.returncode == 0 and digest in done.stdout, done.stdout + done.stderr
    base = f"http://{registry_server.host}/v2/functions/hello"
    manifest = requests.get(f"{base}/manifests/t1", auth=(USER, PASSWORD), timeout=5, headers={"Accept": push_image.MANIFESTS[0]}).json()
    layers = [requests.get(f"{base}/blobs/{item['digest']}", auth=(USER, PASSWORD), timeout=5).content for item in manifest["layers"]]
    assert layers == [b"x" * 3_000_000, b"second"]


@pytest.mark.parametrize("part", ["index.json", "blob", "blobs", "layout"])
def test_a_layout_with_a_link_is_not_pushed(registry_server: RegistryServer, tmp_path: Path, part: str):
    """A process left over from the build may have replaced a file or folder of the layout with a link."""
    write_layout(tmp_path / "layout", layers=(b"layer",))
    config = write_config(tmp_path, registry_server.host)
    blob = next(path for path in (tmp_path / "layout" / "blobs" / "sha256").iterdir() if path.read_bytes() == b"layer")
    path = {"index.json": tmp_path / "layout" / "index.json", "blob": blob, "blobs": blob.parent, "layout": tmp_path / "layout"}[part]
    path.rename(tmp_path / "moved")
    path.symlink_to(config if part == "index.json" else tmp_path / "moved")
    done = push(tmp_path, registry_server.host, config, f"functions/linked-{part.partition('.')[0]}:t1")
    assert done.returncode == push_image.PERMANENT and PASSWORD not in done.stdout + done.stderr
    assert registry_server.tags(f"functions/linked-{part.partition('.')[0]}") == []


def test_a_file_is_only_pushed_under_its_own_digest(registry_server: RegistryServer, tmp_path: Path):
    write_layout(tmp_path / "layout", layers=(b"layer",))
    blob = next(path for path in (tmp_path / "layout" / "blobs" / "sha256").iterdir() if path.read_bytes() == b"layer")
    blob.write_bytes(b"another")
    done = push(tmp_path, registry_server.host, write_config(tmp_path, registry_server.host), "functions/changed:t1")
    assert done.returncode == push_image.PERMANENT and "has another digest" in done.stderr
    assert registry_server.tags("functions/changed") == []


def test_a_wrong_password_is_not_retried(registry_server: RegistryServer, tmp_path: Path):
    write_layout(tmp_path / "layout")
    done = push(tmp_path, registry_server.host, write_config(tmp_path, registry_server.host, "wrong"))
    assert done.returncode == push_image.PERMANENT
    assert done.stderr.startswith(f"cannot push {registry_server.host}/functions/hello:t1: the registry answered 401")


def test_an_unavailable_registry_is_retried(tmp_path: Path):
    write_layout(tmp_path / "layout")
    done = push(tmp_path, "127.0.0.1:9", write_config(tmp_path, "127.0.0.1:9"))
    assert done.returncode == 1 and done.stdout.count("trying again") == push_image.ATTEMPTS - 1
