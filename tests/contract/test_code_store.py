"""The suite of ports.CodeStore, for every implementation."""

import threading
from pathlib import Path

import pytest

from sless.code import open_code_store
from sless.code.folder import FolderCodeStore, check_key
from sless.config import Settings
from sless.domain.ports import CodeStore
from sless.errors import Code, NotFound, SlessError
from tests.services.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server

SHA = "a" * 64


def key_of(name: str) -> str:
    return check_key(f"sless-0123456789abcdef/{name}/{SHA}-u1.zip")


def s3_settings(server: S3Server, data_dir: Path, **more: str) -> Settings:
    known = {"s3_endpoint": server.endpoint, "s3_bucket": BUCKET, "s3_access_key": ACCESS_KEY, "s3_secret_key": SECRET_KEY} | more
    return Settings(data_dir=data_dir, s3_use_ssl=False, **known)  # type: ignore[arg-type]


@pytest.fixture(params=["folder", "s3"])
def code(request: pytest.FixtureRequest, tmp_path: Path) -> CodeStore:
    if request.param == "folder":
        return open_code_store(Settings(data_dir=tmp_path))
    return open_code_store(s3_settings(request.getfixturevalue("s3_server"), tmp_path))


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    path = tmp_path / "blob"
    path.write_bytes(bytes(range(256)) * 8000)
    return path


def test_put_open_delete(code: CodeStore, blob: Path) -> None:
    code.put(key_of("w1"), blob)
    with code.open(key_of("w1")) as file:
        assert file.read() == blob.read_bytes()
        file.seek(5)
        assert file.read(2) == b"\x05\x06"
    code.delete(key_of("w1"))
    with pytest.raises(NotFound):
        code.open(key_of("w1"))


def test_missing_code(code: CodeStore) -> None:
    with pytest.raises(NotFound) as caught:
        code.open(key_of("never"))
    assert caught.value.status == 404
    code.delete(key_of("never"))


def test_put_can_be_repeated(code: CodeStore, blob: Path) -> None:
    code.put(key_of("w2"), blob)
    code.put(key_of("w2"), blob)
    with code.open(key_of("w2")) as file:
        assert len(file.read()) == 256 * 8000


def test_concurrent_access(code: CodeStore, blob: Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(5):
                code.put(key_of(f"p{number % 2}"), blob)
                with code.open(key_of(f"p{number % 2}")) as file:
                    assert len(file.read()) == 256 * 8000
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "../x/" + SHA + ".zip", "ns/w/x.zip", "ns/w/" + SHA, "ns/w/" + SHA + ".zip\n", "n/../" + SHA + ".zip"]
)
def test_bad_keys_are_never_used_as_paths(code: CodeStore, blob: Path, key: str) -> None:
    for act in (lambda: code.put(key, blob), lambda: code.open(key), lambda: code.delete(key)):
        with pytest.raises(ValueError):
            act()


def test_the_folder_store_leaves_no_empty_folders(tmp_path: Path, blob: Path) -> None:
    store = FolderCodeStore(tmp_path / "code")
    store.put(key_of("w"), blob)
    assert [path.name for path in (tmp_path / "code").rglob("*") if path.is_file()] == [SHA + "-u1.zip"]
    store.delete(key_of("w"))
    assert list((tmp_path / "code").iterdir()) == []


def test_s3_failures_are_503(s3_server: S3Server, tmp_path: Path, blob: Path) -> None:
    wrong = [s3_settings(s3_server, tmp_path, s3_secret_key="wrong"), s3_settings(s3_server, tmp_path, s3_endpoint="127.0.0.1:1")]
    for settings in wrong:
        store = open_code_store(settings)
        for act in (lambda: store.put(key_of("w"), blob), lambda: store.open(key_of("w"))):  # noqa: B023
            with pytest.raises(SlessError) as caught:
                act()
            assert caught.value.code is Code.UNAVAILABLE and SECRET_KEY not in caught.value.message
