import os
import stat
import threading
import time
import weakref
import zipfile

import pytest

from sless.errors import NotFound
from sless.host import unzip
from sless.host.material import Material, MaterialKey, MaterialLost
from tests.contract.backend_harness import MemoryCode


@pytest.fixture
def code():
    return MemoryCode()


@pytest.fixture
def material(tmp_path, code):
    return Material(tmp_path / "data", code)


def key_of(code_key: str, runtime: str = "python3.11", artifact: str = "") -> MaterialKey:
    return MaterialKey(code_key=code_key, artifact=artifact, runtime=runtime)


def test_code_is_unpacked_once_and_execute_bits_are_kept(material, code):
    key = key_of(code.add({"handler.py": "x = 1\n", "bin/tool": "#!/bin/sh\n"}, executable=("bin/tool",)))
    unpacked = material.ensure(key)
    assert (unpacked.code_dir / "handler.py").read_text() == "x = 1\n"
    assert stat.S_IMODE((unpacked.code_dir / "bin/tool").stat().st_mode) == 0o555
    assert stat.S_IMODE((unpacked.code_dir / "handler.py").stat().st_mode) == 0o444
    assert unpacked.deps_dir is None
    code.delete(key.code_key)
    assert material.ensure(key) == unpacked


def test_concurrent_callers_share_one_folder(material, code):
    key = key_of(code.add({f"m{n}.py": "x = 1\n" * 50 for n in range(40)}))
    found = []
    threads = [threading.Thread(target=lambda: found.append(material.ensure(key))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 8
    assert [entry.name for entry in found[0].code_dir.parent.parent.iterdir() if entry.name.startswith(".")] == []


def test_two_servers_share_one_folder(tmp_path, code):
    key = key_of(code.add({"a.py": ""}))
    assert Material(tmp_path, code).ensure(key) == Material(tmp_path, code).ensure(key)


def test_a_large_upload_is_unpacked_by_a_child(material, code):
    files = {f"pkg/m{n}.py": f"x = {n}\n" for n in range(unzip.LARGE_FILES + 1)}
    unpacked = material.ensure(key_of(code.add(files)))
    assert len(list((unpacked.code_dir / "pkg").iterdir())) == len(files)


def test_missing_code_leaves_nothing(material, tmp_path):
    with pytest.raises(NotFound, match="nosuch"):
        material.ensure(key_of("nosuch"))
    assert list((tmp_path / "data" / "versions").iterdir()) == []


def test_a_broken_zip_leaves_nothing(material, code, tmp_path):
    code.blobs["bad"] = b"PK not a zip"
    with pytest.raises(zipfile.BadZipFile):
        material.ensure(key_of("bad"))
    assert list((tmp_path / "data" / "versions").iterdir()) == []


def test_python_gets_its_dependencies_by_path_and_node_by_a_link(material, code):
    for artifact in ("deps1", "deps2"):
        (material.deps_dir(artifact) / "node_modules" / "x").mkdir(parents=True)
    upload = code.add({"handler.js": ""})
    assert material.ensure(key_of(upload, artifact="deps1")).deps_dir == material.deps_dir("deps1")
    node = material.ensure(key_of(upload, "nodejs20", "deps2"))
    assert node.deps_dir is None
    assert (node.code_dir / "node_modules").resolve() == (material.deps_dir("deps2") / "node_modules").resolve()


def test_an_uploaded_node_modules_is_kept(material, code):
    (material.deps_dir("deps1") / "node_modules").mkdir(parents=True)
    node = material.ensure(key_of(code.add({"node_modules/own/index.js": ""}), "nodejs20", "deps1"))
    assert [entry.name for entry in (node.code_dir / "node_modules").iterdir()] == ["own"]


def test_lost_dependencies_raise(material, code):
    with pytest.raises(MaterialLost, match="upload it again"):
        material.ensure(key_of(code.add({"a.py": ""}), artifact="gone"))


def test_collect_removes_unused_old_folders(material, code):
    for artifact in ("kept", "loose"):
        material.deps_dir(artifact).mkdir()
    kept, loose = key_of(code.add({"a.py": "1"}), artifact="kept"), key_of(code.add({"a.py": "2"}), artifact="loose")
    folders = [material.ensure(kept).code_dir, material.ensure(loose).code_dir]
    assert material.collect({kept}) == 0, "young folders stay"
    assert material.collect({kept}, young_sec=0) == 2
    assert [folder.exists() for folder in folders] == [True, False]
    assert material.deps_dir("kept").exists() and not material.deps_dir("loose").exists()


def test_using_a_folder_keeps_it_from_collection(material, code):
    key = key_of(code.add({"a.py": ""}))
    folder = material.ensure(key).code_dir.parent
    os.utime(folder, (0, 0))
    material.ensure(key)
    assert time.time() - folder.stat().st_mtime < 60


# --- the unpacker -----------------------------------------------------------------------------------------------------------------------


def zip_with(path, name: str, content: str = "", mode: int = 0o100644):
    with zipfile.ZipFile(path, "w") as archive:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        archive.writestr(entry, content)
    return str(path)


@pytest.mark.parametrize(
    ("name", "content", "mode"),
    [
        ("../out", "", 0o100644),
        ("/abs/out", "", 0o100644),
        ("a/../../out", "", 0o100644),
        ("link", "../../etc/passwd", 0o120777),
        ("link", "/etc/passwd", 0o120777),
    ],
)
def test_entries_cannot_escape_the_folder(tmp_path, name, content, mode):
    packed = zip_with(tmp_path / "a.zip", name, content, mode)
    (tmp_path / "in").mkdir()
    with pytest.raises(ValueError, match="leads out"):
        unzip.unpack(packed, str(tmp_path / "in"))
    assert list((tmp_path / "in").iterdir()) == []


def test_a_link_inside_is_kept(tmp_path):
    packed = zip_with(tmp_path / "a.zip", "d/link", "../target", 0o120777)
    (tmp_path / "in").mkdir()
    unzip.unpack(packed, str(tmp_path / "in"))
    assert os.readlink(tmp_path / "in" / "d" / "link") == "../target"


def test_another_server_may_unpack_first(tmp_path, code):
    class Slow(MemoryCode):
        """Lets the other server unpack while this one opens."""

        def open(self, key):
            other.ensure(key_of(key))
            return super().open(key)

    slow = Slow()
    key = key_of(code.add({"a.py": ""}))
    slow.blobs = code.blobs
    other = Material(tmp_path, code)
    assert Material(tmp_path, slow).ensure(key) == other.ensure(key)
    assert not [entry for entry in (tmp_path / "versions").iterdir() if entry.name.startswith(".")]


def test_dependencies_of_another_server_are_kept(material, tmp_path):
    for text in ("1", "2"):
        with material.staging() as staged:
            (staged / "made").mkdir()
            (staged / "made" / "x.py").write_text(text)
            material.keep_deps(staged / "made", "key")
    assert (material.deps_dir("key") / "x.py").read_text() == "1"
    assert [entry.name for entry in (tmp_path / "data" / "deps").iterdir()] == ["key"]


def test_a_lock_exists_as_long_as_it_is_used(material):
    lock = material.lock_of("a")
    assert material.lock_of("a") is lock and material.lock_of("b") is not lock
    kept = weakref.ref(lock)
    del lock
    assert kept() is None
