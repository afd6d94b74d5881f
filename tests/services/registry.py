"""A real image registry: Debian's docker-registry, in a temporary folder, with or without a password."""

import hashlib
import json
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import requests

from tests.services import free_ports, unavailable

USER, PASSWORD = "sless-tests", "not-a-secret-of-anyone"
_HTPASSWD = f"{USER}:$2y$05$abcdefghijklmnopqrstuuBwr/QZoDhzsINL8dYG0gK//rVlHxwP.\n"
_READY_SEC = 30


class RegistryServer:
    """`host` is `127.0.0.1:port`, plain http."""

    def __init__(self, *, password: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sless-registry-"))
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        self.host = ""

    def start(self) -> "RegistryServer":
        program = shutil.which("docker-registry")
        if program is None:
            unavailable("an image registry", "docker-registry")
        self.host = f"127.0.0.1:{free_ports(1)[0]}"
        config = self._folder / "config.yml"
        config.write_text(self._config())
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen([program, "serve", str(config)], stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + _READY_SEC
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def tags(self, repository: str) -> list[str]:
        answer = requests.get(f"http://{self.host}/v2/{repository}/tags/list", auth=self._auth, timeout=30)
        return sorted(answer.json().get("tags") or []) if answer.status_code == 200 else []

    @property
    def _auth(self) -> tuple[str, str] | None:
        return (USER, PASSWORD) if self._password else None

    def _answers(self) -> bool:
        try:
            return requests.get(f"http://{self.host}/v2/", auth=self._auth, timeout=2).status_code == 200
        except requests.RequestException:
            return False

    def _config(self) -> str:
        text = (
            "version: 0.1\nlog: {level: warn}\nstorage:\n  delete: {enabled: true}\n"
            f"  filesystem: {{rootdirectory: {self._folder / 'data'}}}\nhttp: {{addr: '{self.host}'}}\n"
        )
        if self._password:
            (self._folder / "htpasswd").write_text(_HTPASSWD)
            text += f"auth:\n  htpasswd: {{realm: tests, path: {self._folder / 'htpasswd'}}}\n"
        return text


def push_empty(host: str, repository: str, tag: str, auth: tuple[str, str] | None = None, created: str = "") -> str:
    """Pushes an image without layers, as a builder would; returns the manifest's digest. `created` distinguishes images."""
    base = f"http://{host}/v2/{repository}"
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": []},
            "created": created or "2026-01-01T00:00:00Z",
        }
    ).encode()
    digest = "sha256:" + hashlib.sha256(config).hexdigest()
    upload = requests.post(f"{base}/blobs/uploads/", auth=auth, timeout=30)
    upload.raise_for_status()
    separator = "&" if "?" in upload.headers["Location"] else "?"
    octets = {"Content-Type": "application/octet-stream"}
    requests.put(
        f"{upload.headers['Location']}{separator}digest={digest}", data=config, headers=octets, auth=auth, timeout=30
    ).raise_for_status()
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": len(config)},
        "layers": [],
    }
    answer = requests.put(f"{base}/manifests/{tag}", data=json.dumps(manifest), headers={"Content-Type": kind}, auth=auth, timeout=30)
    answer.raise_for_status()
    return answer.headers["Docker-Content-Digest"]
