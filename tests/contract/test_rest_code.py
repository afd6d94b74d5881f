"""Code over REST: three ways to upload, versions, activation, source."""

import base64
import io
import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sless.domain.model import Kind, VersionState
from sless.errors import Code, SlessError
from tests.contract.rest_harness import HANDLER, Rest, fields_of, zip_of

ZIP = "application/zip"


def form(data: bytes, **fields: str) -> dict[str, Any]:
    return {"data": {"code": (io.BytesIO(data), "code.zip")} | fields, "content_type": "multipart/form-data"}


def left_over(rest: Rest) -> list[Path]:
    return list((rest.settings.data_dir / "uploads").iterdir())


def stored(rest: Rest) -> list[Path]:
    return [path for path in (rest.settings.data_dir / "code").rglob("*") if path.is_file()]


def test_the_same_code_uploaded_three_ways_is_one_version(rest: Rest) -> None:
    rest.function()
    data = zip_of({"handler.py": HANDLER})
    first = rest.post("functions/hello/upload", **form(data))
    assert first.status_code == 202
    assert first.json | {"version": 1, "phase": "Building"} == first.json
    assert len(first.json["sha256"]) == 64 and "/" + first.json["sha256"] + "-" in first.json["s3_key"]
    assert "builds" in rest.waker.topics
    rest.waker.topics.clear()
    for again in (
        rest.post("functions/hello/upload", data=data, content_type=ZIP),
        rest.upload(),
        rest.post("functions/hello/upload", **form(data)),
    ):
        assert again.status_code == 200 and again.json["version"] == 1 and again.json["sha256"] == first.json["sha256"]
    assert "builds" not in rest.waker.topics
    assert [item["version"] for item in rest.get("functions/hello/versions").json] == [1]
    assert left_over(rest) == []


def test_code_hash_is_returned_however_it_was_sent(rest: Rest) -> None:
    rest.function()
    data = zip_of({"handler.py": HANDLER})
    rest.post("functions/hello/upload", **form(data, code_hash="one"))
    assert rest.get("functions/hello").json["code_hash"] == "one"
    rest.upload(code_hash="two")
    assert rest.get("functions/hello").json["code_hash"] == "two"
    rest.post("functions/hello/upload?code_hash=three", data=data, content_type=ZIP)
    assert rest.get("functions/hello").json["code_hash"] == "three"
    rest.post("functions/hello/upload", data=data, content_type=ZIP)
    assert rest.get("functions/hello").json["code_hash"] == "three"
    for wrong in ("x" * 201, "a%00b"):
        assert fields_of(rest.post(f"functions/hello/upload?code_hash={wrong}", data=data, content_type=ZIP)) == {"code_hash"}
    assert fields_of(rest.upload(code_hash="a\0b")) == {"code_hash"}


def test_code_hash_describes_the_active_version(rest: Rest) -> None:
    rest.function()
    rest.built(code_hash="one")
    rest.upload(files={"handler.py": "x = 1"}, code_hash="two")
    body = rest.get("functions/hello").json
    assert (body["code_hash"], body["phase"], body["latest_version"], body["active_version"]) == ("one", "Building", 2, 1)
    rest.finish("hello", number=2, state=VersionState.FAILED, message="broken")
    body = rest.get("functions/hello").json
    assert (body["code_hash"], body["phase"], body["latest_state"]) == ("one", "Ready", "failed")


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"data": b"hello", "content_type": ZIP}, 400),
        ({"data": b"", "content_type": ZIP}, 400),
        ({"data": b"", "content_type": "multipart/form-data; boundary=x"}, 400),
        ({"data": b"garbage", "content_type": "multipart/form-data"}, 400),
        ({"data": {"file": (io.BytesIO(b"x"), "x")}, "content_type": "multipart/form-data"}, 400),
        ({"data": {"code": "text"}, "content_type": "multipart/form-data"}, 400),
        ({"data": b"x", "content_type": "text/plain"}, 415),
        ({"data": b"x"}, 415),
        ({"json": {"files": {}}}, 400),
        ({"json": {"files": {"handler.py": 3}}}, 400),
        ({"json": {"file": {}}}, 400),
        ({"json": []}, 400),
        ({"data": b"{", "content_type": "application/json"}, 400),
        ({"data": zip_of({"handler.py": HANDLER, "../up.py": ""}), "content_type": ZIP}, 400),
        ({"data": zip_of({"handler.py": HANDLER, "/abs.py": ""}), "content_type": ZIP}, 400),
        ({"data": zip_of({"handler.py": HANDLER, "l": "../../etc"}, l=stat.S_IFLNK | 0o777), "content_type": ZIP}, 400),
        ({"data": zip_of({"other.py": HANDLER}), "content_type": ZIP}, 400),
        ({"data": zip_of({"handler.py": "def ("}), "content_type": ZIP}, 400),
    ],
)
def test_bad_uploads(rest: Rest, options: dict[str, Any], status: int) -> None:
    rest.function()
    if isinstance(options.get("data"), dict) and "file" in options["data"]:
        options = {**options, "data": {"file": (io.BytesIO(b"x"), "x")}}
    response = rest.post("functions/hello/upload", **options)
    assert response.status_code == status, response.text
    assert left_over(rest) == [] and stored(rest) == []
    assert rest.get("functions/hello").json["phase"] == "Pending"


def test_syntax_errors_name_file_and_line(rest: Rest) -> None:
    rest.function()
    response = rest.upload(files={"handler.py": HANDLER, "lib/x.py": "a = 1\nb = = 2\n"})
    assert response.status_code == 400 and response.json["code"] == "invalid_code"
    assert response.json["details"] == [{"field": "lib/x.py", "message": "line 2: invalid syntax"}]


def test_missing_entrypoint_module_names_the_file(rest: Rest) -> None:
    rest.function(entrypoint="pkg/app.run")
    response = rest.upload()
    assert response.status_code == 400 and "expected pkg/app.py" in response.json["error"]


def test_an_upload_over_a_limit_is_413_naming_the_limit(make_store: Any, tmp_path: Path) -> None:
    rest = Rest(make_store(), tmp_path, max_zip_bytes=50_000, max_unpacked_bytes=200_000, max_code_files=10)
    rest.function()
    noise = base64.b64encode(os.urandom(60_000)).decode()
    big, bomb = zip_of({"handler.py": HANDLER, "n": noise}), zip_of({"handler.py": HANDLER, "z": b"\0" * 300_000})
    many = zip_of({"handler.py": HANDLER, **{f"f{number}": "" for number in range(10)}})
    uploads: list[tuple[dict[str, Any], str]] = [
        ({"data": big, "content_type": ZIP}, "max_zip_bytes"),
        (form(big), "max_zip_bytes"),
        (form(big + b"\0" * 200_000), "max_zip_bytes"),
        ({"json": {"files": {"handler.py": noise}}}, "max_zip_bytes"),
        ({"data": bomb, "content_type": ZIP}, "max_unpacked_bytes"),
        (form(many), "max_code_files"),
    ]
    for options, limit in uploads:
        response = rest.post("functions/hello/upload", **options)
        assert response.status_code == 413 and response.json["code"] == "too_large" and limit in response.json["error"], response.text
    assert left_over(rest) == [] and stored(rest) == []


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([b"form-data"], "the form has a part without a name"),
        ([b'form-data; filename="code.zip"'], "the form has a part without a name"),
        ([b'form-data; name="a"'] * 1001, "at most 1000 parts"),
        ([b'form-data; name="a"; filename="b"'] * 1001, "at most 1000 parts"),
    ],
)
def test_a_form_with_nameless_or_too_many_parts_is_400(rest: Rest, parts: list[bytes], message: str) -> None:
    rest.function()
    whole = [*parts, b'form-data; name="code"; filename="code.zip"']
    body = b"".join(b"--b\r\nContent-Disposition: %b\r\n\r\nx\r\n" % part for part in whole) + b"--b--\r\n"
    response = rest.post("functions/hello/upload", data=body, content_type="multipart/form-data; boundary=b")
    assert response.status_code == 400 and message in response.json["error"], response.text
    assert left_over(rest) == []


def test_a_full_disk_is_507_and_leaves_no_files(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    rest.function()

    class Full:
        def put(self, key: str, source: Path) -> None:
            raise SlessError(Code.STORAGE_FULL, "full")

    object.__setattr__(rest.usecases.uploads._parts, "code", Full())
    response = rest.upload()
    assert response.status_code == 507 and response.json["code"] == "storage_full"
    assert left_over(rest) == [] and rest.get("functions/hello/versions").json == []


FULL_DISK = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from sless.store import open_store
from tests.builders import KEYRING
from tests.contract.rest_harness import Rest
store = open_store(sys.argv[2], keyring=KEYRING)
rest = Rest(store, Path(sys.argv[3]))
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
response = rest.post("functions/hello/upload", data=Path(sys.argv[4]).read_bytes(), content_type="application/zip")
print(response.status_code, response.json["code"], len(list((rest.settings.data_dir / "uploads").iterdir())))
store.close()
"""


def test_a_full_disk_while_the_body_arrives(rest: Rest, database_url: str, repository: Path, tmp_path: Path) -> None:
    """A file size limit simulates the full disk: the kernel refuses the same write, with EFBIG instead of ENOSPC."""
    rest.function()
    (tmp_path / "upload.zip").write_bytes(zip_of({"handler.py": HANDLER, "noise": os.urandom(100_000)}))
    arguments = [str(repository), database_url, str(rest.settings.data_dir), str(tmp_path / "upload.zip")]
    done = subprocess.run([sys.executable, "-c", FULL_DISK, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["507", "storage_full", "0"]


def test_uploading_the_same_code_retries_a_failed_build(rest: Rest) -> None:
    rest.function()
    rest.built(state=VersionState.FAILED, message="the index does not answer")
    response = rest.upload()
    assert response.status_code == 202 and response.json["version"] == 2


def test_another_runtime_or_entrypoint_creates_a_version_of_the_same_code(rest: Rest) -> None:
    rest.function()
    rest.upload(files={"handler.py": HANDLER, "other.py": HANDLER})
    rest.finish("hello")
    rest.waker.topics.clear()
    assert rest.patch("functions/hello", {"entrypoint": "other.handle"}).json["phase"] == "Building"
    assert "builds" in rest.waker.topics
    one, two = reversed(rest.get("functions/hello/versions").json)
    assert (two["entrypoint"], two["sha256"], two["state"]) == ("other.handle", one["sha256"], "queued")
    rest.patch("functions/hello", {"memory_mb": 64, "env_vars": {"A": "1"}})
    assert len(rest.get("functions/hello/versions").json) == 2
    assert rest.upload(files={"handler.py": HANDLER, "other.py": HANDLER}).status_code == 200


def test_a_rollback_restores_runtime_and_entrypoint(rest: Rest) -> None:
    rest.function()
    rest.built(files={"handler.py": HANDLER, "other.py": HANDLER})
    rest.patch("functions/hello", {"entrypoint": "other.handle"})
    rest.finish("hello", number=2)
    assert rest.get("functions/hello").json["active_version"] == 2
    body = rest.post("functions/hello/versions/1/activate").json
    assert (body["active_version"], body["entrypoint"], body["latest_version"]) == (1, "handler.handle", 2)
    assert [item["active"] for item in rest.get("functions/hello/versions").json] == [False, True]
    # A change unrelated to code creates no version, although the newest has another entrypoint.
    rest.patch("functions/hello", {"memory_mb": 64})
    assert len(rest.get("functions/hello/versions").json) == 2


def test_a_rebuild_creates_a_version_of_the_active_code(rest: Rest) -> None:
    rest.function()
    assert rest.post("functions/hello/rebuild").status_code == 409
    rest.built(code_hash="one")
    rest.built(files={"handler.py": "def handle(e): return 2"})
    rest.post("functions/hello/versions/1/activate")
    rest.waker.topics.clear()
    response = rest.post("functions/hello/rebuild")
    assert (response.status_code, response.json["version"], response.json["state"]) == (202, 3, "queued")
    assert "builds" in rest.waker.topics
    assert rest.post("functions/hello/rebuild").json["version"] == 3, "it is being built already"
    assert rest.get("functions/hello").json["active_version"] == 1, "which serves meanwhile"
    rest.finish("hello", number=3)
    shown = rest.get("functions/hello").json
    first, _, third = reversed(rest.get("functions/hello/versions").json)
    assert (shown["active_version"], shown["code_hash"], third["sha256"]) == (3, "one", first["sha256"])
    assert rest.post("functions/other/rebuild").status_code == 404


def test_a_rebuild_of_any_version(rest: Rest) -> None:
    rest.function()
    rest.upload(files={"handler.py": "def handle(e): return 1"})
    rest.finish("hello", number=1, state=VersionState.FAILED)
    again = rest.post("functions/hello/rebuild")
    assert (again.status_code, again.json["version"], again.json["state"]) == (202, 2, "queued"), "also without a working version"
    rest.finish("hello", number=2)
    rest.built(files={"handler.py": "def handle(e): return 2"})
    response = rest.post("functions/hello/rebuild?version=1")
    first, *_ = reversed(rest.get("functions/hello/versions").json)
    assert (response.status_code, response.json["version"], response.json["sha256"]) == (202, 4, first["sha256"])
    assert rest.post("functions/hello/rebuild?version=1").json["version"] == 4, "it is being built already"
    assert rest.post("functions/hello/rebuild?version=3").json["version"] == 5, "other code"
    assert rest.post("functions/hello/rebuild?version=77").status_code == 404
    assert rest.post("functions/hello/rebuild?version=x").status_code == 400


def test_a_rebuild_does_not_supersede_an_upload(rest: Rest) -> None:
    rest.function()
    rest.built()
    uploaded = rest.upload(files={"handler.py": "def handle(e): return 2"})
    assert rest.post("functions/hello/rebuild").json["version"] == uploaded.json["version"]


def test_uploading_rolled_back_code_activates_it_again_without_a_build(rest: Rest) -> None:
    rest.function()
    rest.built()
    rest.built(files={"handler.py": "def handle(e): return 2"})
    rest.post("functions/hello/versions/1/activate")
    response = rest.upload(files={"handler.py": "def handle(e): return 2"})
    assert response.status_code == 200 and response.json["version"] == 2
    assert rest.get("functions/hello").json["active_version"] == 2


def test_versions(rest: Rest) -> None:
    rest.function()
    for number in range(4):
        rest.built(files={"handler.py": f"x = {number}"}, code_hash=str(number))
    assert [item["version"] for item in rest.get("functions/hello/versions").json] == [4, 3, 2, 1]
    page = rest.get("functions/hello/versions?limit=3")
    assert [item["version"] for item in page.json] == [4, 3, 2]
    assert [item["version"] for item in rest.get(page.headers["Link"].partition(">")[0][1:]).json] == [1]
    assert rest.get("functions/hello/versions/9").status_code == 404
    for odd in ("0", "x", "-1", "99999999999999999999", "1.0"):
        assert rest.get(f"functions/hello/versions/{odd}").status_code == 404
    assert fields_of(rest.get("functions/hello/versions?cursor=x")) == {"cursor"}


def test_the_build_log_stays_with_the_version(rest: Rest) -> None:
    rest.function()
    version = rest.built()
    rest.store.versions.add_log(version.id, ["collecting", "done"])
    assert rest.get("functions/hello/versions/1").json["build_log"] == "collecting\ndone\n"


def test_activate_and_cancel_depend_on_the_state(rest: Rest) -> None:
    rest.function()
    rest.upload()
    response = rest.post("functions/hello/versions/1/activate")
    assert response.status_code == 409 and response.json["code"] == "conflict"
    assert rest.post("functions/hello/versions/1/cancel").json["state"] == "cancelled"
    assert rest.post("functions/hello/versions/1/cancel").status_code == 409
    assert rest.get("functions/hello").json["phase"] == "Failed"
    assert rest.post("functions/hello/versions/2/cancel").status_code == 404


def test_source_as_json_and_zip(rest: Rest) -> None:
    rest.function()
    assert rest.get("functions/hello/source").status_code == 404
    files = {"handler.py": HANDLER, "b.bin": {"base64": "AP8="}, "run.sh": {"text": "x", "executable": True}}
    rest.built(files=files)
    rest.built(files={"handler.py": "def handle(e): return 2"})
    assert rest.get("functions/hello/source").json == {"files": {"handler.py": "def handle(e): return 2"}}
    first = rest.get("functions/hello/source?version=1").json["files"]
    assert first == {"handler.py": HANDLER, "b.bin": {"base64": "AP8="}, "run.sh": {"base64": "eA==", "executable": True}}
    assert rest.get("functions/hello/source?version=3").status_code == 404
    assert fields_of(rest.get("functions/hello/source?version=x")) == {"version"}
    response = rest.get("functions/hello/source?version=1", headers={"Accept": ZIP})
    assert response.mimetype == ZIP and "hello.zip" in response.headers["Content-Disposition"]
    with zipfile.ZipFile(io.BytesIO(response.data)) as archive:
        assert set(archive.namelist()) == set(files)
    rest.post("functions/hello/versions/1/activate")
    assert set(rest.get("functions/hello/source").json["files"]) == set(files)
    assert left_over(rest) == []


def test_jobs_accept_code_unless_they_refer_to_a_function(rest: Rest) -> None:
    rest.function("own", "job")
    assert rest.upload("own", "job").status_code == 202
    rest.post("jobs", {"name": "other", "function_ref": "hello"})
    response = rest.upload("other", "job")
    assert response.status_code == 409 and "hello" in response.json["error"]


def test_an_unknown_target_is_404_before_the_body_is_read(rest: Rest) -> None:
    class Unread(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise AssertionError("the body was read")

    response = rest.post("functions/nope/upload", input_stream=Unread(), headers={"Content-Length": "10", "Content-Type": ZIP})
    assert response.status_code == 404


def test_a_version_keeps_its_build_environment(rest: Rest) -> None:
    rest.function(build_env={"INDEX": "secret"})
    rest.upload()
    workload = rest.store.workloads.get(rest.namespace, Kind.FUNCTION, "hello")
    assert rest.store.versions.get(workload.id, 1).build_env == {"INDEX": "secret"}
    assert "secret" not in json.dumps(rest.get("functions/hello/versions/1").json)
