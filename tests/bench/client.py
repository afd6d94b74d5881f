"""The bench as a user: deploys with the client library and waits for the first 200."""

import io
import zipfile
from pathlib import Path

from sless import client as rest
from sless.config import load
from sless.tokens import issue_token
from tests.bench.places import ROOT, answers, wait_until

ENTRYPOINT_OF = {"python3.11": "handler.handle", "nodejs20": "handler.handle"}


def connect(url: str, folder: Path, sub: str = "bench") -> rest.Client:
    """A client as a tenant of the server that keeps its data in `folder`."""
    client = rest.connect(url, token_of(folder, sub))
    client.ensure_namespace()
    return client


def token_of(folder: Path, sub: str = "bench") -> str:
    settings = load({"SLESS_DATA_DIR": str(folder / "data"), "HOME": str(ROOT)})
    return issue_token(settings, sub, 86_400)


def pack(folder: Path) -> bytes:
    return rest.pack_folder(folder).data


def small_zip(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def deploy(client: rest.Client, name: str, folder: Path, runtime: str) -> str:
    """Deploys a function with an http trigger; returns its URL once it answers."""
    client.functions.create({"name": name, "runtime": runtime, "entrypoint": ENTRYPOINT_OF[runtime], "memory_mb": 512, "concurrency": 300})
    client.triggers.create({"name": name, "type": "http", "function_ref": name})
    client.functions.upload(name, pack(folder))
    url = str(client.functions.get(name)["url"])
    wait_until(lambda: answers(url), f"{name} answers")
    return url
