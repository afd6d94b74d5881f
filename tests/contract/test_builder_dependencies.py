"""Forms of dependencies: hashes, extras, markers, uploaded wheels, a private index, lock files."""

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator

import pytest
from werkzeug import Request, Response

from tests.contract.builder_harness import LocalBuilderHarness, wheel_of
from tests.services.fake_http import serving

pytestmark = pytest.mark.xdist_group("builder-dependencies")
OFFLINE = "--no-index\n--find-links wheels\n"


@pytest.fixture
def harness() -> Iterator[LocalBuilderHarness]:
    made = LocalBuilderHarness()
    yield made
    made.close()


def wheels(*names: str, **metadata: str) -> dict[str, bytes]:
    """Wheels of version 1.0, each with a module of the same name; `metadata`: extra lines for the first."""
    made = {}
    for name in names:
        data = wheel_of(name, "1.0", f"NAME = {name!r}\n")
        if metadata and name == names[0]:
            data = _with_metadata(data, name, "".join(f"{text}\n" for text in metadata.values()))
        made[f"wheels/{name}-1.0-py3-none-any.whl"] = data
    return made


def _with_metadata(data: bytes, name: str, more: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(packed, "w") as target:
        for entry in source.namelist():
            text = source.read(entry).decode()
            target.writestr(entry, text + more if entry.endswith("METADATA") else text)
    return packed.getvalue()


def handler(imports: str) -> dict[str, str]:
    return {"handler.py": f"import {imports}\ndef handle(event): pass\n"}


def test_wheels_in_the_upload(harness):
    _, status = harness.build(handler("tiny") | wheels("tiny") | {"requirements.txt": OFFLINE + "tiny==1.0\n"})
    assert status.ready, status.message


def test_extras_are_installed_only_when_requested(harness):
    packages = wheels("tiny", "side", provides="Provides-Extra: more", requires='Requires-Dist: side; extra == "more"')
    _, status = harness.build(handler("tiny, side") | packages | {"requirements.txt": OFFLINE + "tiny[more]==1.0\n"})
    assert status.ready, status.message
    _, status = harness.build(handler("tiny, side") | packages | {"requirements.txt": OFFLINE + "tiny==1.0\n"})
    assert "No module named 'side'" in status.message


def test_environment_markers_are_obeyed(harness):
    requirements = OFFLINE + 'tiny==1.0; python_version >= "3.8"\nnosuch==1; python_version < "3"\n'
    _, status = harness.build(handler("tiny") | wheels("tiny") | {"requirements.txt": requirements})
    assert status.ready, status.message


def test_hashes_are_checked(harness):
    packages = wheels("tiny")
    digest = hashlib.sha256(next(iter(packages.values()))).hexdigest()
    right = OFFLINE + f"tiny==1.0 \\\n    --hash=sha256:{digest}\n"
    _, status = harness.build(handler("tiny") | packages | {"requirements.txt": right})
    assert status.ready, status.message
    wrong = right.replace(digest, "0" * 64)
    _, status = harness.build(handler("tiny") | packages | {"requirements.txt": wrong})
    assert status.message.splitlines()[0] == 'pip could not install "tiny==1.0" from requirements.txt, line 3'
    assert "DO NOT MATCH" in status.message


def test_a_python_package_with_relative_imports_in_a_sub_folder(harness):
    files = {"src/__init__.py": "", "src/shop/__init__.py": "", "src/shop/words.py": "WORD = 'in'\n"}
    files["src/shop/app.py"] = "from .words import WORD\nfrom ..shop import words\ndef main(event):\n    return WORD\n"
    for entrypoint in ("src/shop/app.main", "src.shop.app.main"):
        _, status = harness.build(files, entrypoint=entrypoint)
        assert status.ready, (entrypoint, status.message)


class PrivateIndex:
    """A package index that requires a password and records refused requests."""

    user, password = "reader", "s3same-0pen"

    def __init__(self) -> None:
        self.url = ""
        self.files: dict[str, tuple[str, bytes]] = {}
        self.refused: list[str] = []

    def answer(self, request: Request) -> Response:
        who = request.authorization
        if who is None or (who.username, who.password) != (self.user, self.password):
            self.refused.append(request.path)
            return Response(status=401, headers={"WWW-Authenticate": "Basic"})
        kind, content = self.files.get(request.path, ("", b""))
        return Response(content, 200 if kind else 404, content_type=kind or "text/plain")


@pytest.fixture
def index() -> Iterator[PrivateIndex]:
    made = PrivateIndex()
    with serving(made.answer) as made.url:
        yield made


def test_private_index_from_build_env_stays_secret(harness, index):
    name = "tiny-1.0-py3-none-any.whl"
    index.files["/simple/tiny/"] = ("text/html", f'<a href="/files/{name}">{name}</a>'.encode())
    index.files[f"/files/{name}"] = ("application/octet-stream", wheel_of("tiny", "1.0", "NAME = 'private'\n"))
    with_password = index.url.replace("//", f"//{index.user}:{index.password}@") + "/simple"
    sees = "import os, tiny\nassert not [name for name in os.environ if name.startswith('PIP_')]\nassert 'WORD' not in os.environ\n"
    files = {"handler.py": sees + "def handle(event): pass\n", "requirements.txt": "tiny==1.0\n"}
    build_env = {"PIP_INDEX_URL": with_password, "PIP_EXTRA_INDEX_URL": "", "PIP_NO_CACHE_DIR": "1", "WORD": index.password}
    spec, status = harness.build(files, build_env=build_env)
    assert status.ready, (status.message, harness.log[spec.id])
    assert index.password not in "\n".join(harness.log[spec.id])

    build_env["PIP_INDEX_URL"] = with_password.replace(index.user, "stranger")
    spec, status = harness.build(files, build_env=build_env | {"WORD": "x"}, namespace="sless-fedcba9876543210")
    assert not status.ready
    assert index.refused, "the index was asked without the right name"
    assert index.password not in "\n".join([*harness.log[spec.id], status.message])


def test_the_versions_of_a_package_lock_are_installed(harness, index, node_binary):
    """package.json alone would install the newer one."""
    packed = {version: _node_package("tiny", version) for version in ("1.0.0", "1.2.0")}
    for version, data in packed.items():
        index.files[f"/tiny/-/tiny-{version}.tgz"] = ("application/octet-stream", data)
    url = f"{index.url}/tiny/-/tiny-1.0.0.tgz"
    digest = "sha512-" + base64.b64encode(hashlib.sha512(packed["1.0.0"]).digest()).decode()
    package = {"name": "fn", "version": "1.0.0", "dependencies": {"tiny": "^1.0.0"}}
    lock = {
        "name": "fn", "version": "1.0.0", "lockfileVersion": 3, "requires": True,
        "packages": {"": package, "node_modules/tiny": {"version": "1.0.0", "resolved": url, "integrity": digest}},
    }  # fmt: skip
    host = index.url.removeprefix("http:")
    password = base64.b64encode(index.password.encode()).decode()
    npmrc = f"registry={index.url}/\n{host}/:username={index.user}\n{host}/:_password=${{INDEX_PASSWORD}}\n"
    files = {
        "handler.js": "exports.handle = () => require('tiny');\nif (require('tiny') !== '1.0.0') throw new Error(require('tiny'));\n",
        "package.json": json.dumps(package), "package-lock.json": json.dumps(lock), ".npmrc": npmrc,
    }  # fmt: skip
    build_env = {"INDEX_PASSWORD": password, "npm_config_cache": str(harness.root / "npm"), "npm_config_fetch_retries": "0"}
    spec, status = harness.build(files, runtime="nodejs20", build_env=build_env)
    assert status.ready, (status.message, harness.log[spec.id])

    lock["packages"]["node_modules/tiny"]["integrity"] = "sha512-" + base64.b64encode(b"0" * 64).decode()
    spec, status = harness.build(files | {"package-lock.json": json.dumps(lock)}, runtime="nodejs20", build_env=build_env)
    assert "EINTEGRITY" in status.message, status.message


def _node_package(name: str, version: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        files = {
            "package.json": json.dumps({"name": name, "version": version, "main": "index.js"}),
            "index.js": f"module.exports = '{version}';\n",
        }
        for path, text in files.items():
            info = tarfile.TarInfo(f"package/{path}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()
