"""Uploads through the real child process."""

import base64
import io
import json
import os
import stat
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sless.code.intake import CheckedUpload, Form, Intake
from sless.code.syntax import MAX_NODE_FILES, MAX_SOURCE_BYTES
from sless.domain.code_check import Finding
from sless.domain.package import PackageLimits
from sless.errors import Code, SlessError

LIMITS = PackageLimits(unpacked_bytes=20 << 20, files=5000)
HANDLER = "def handle(event):\n    return event\n"
needs_node = pytest.mark.usefixtures("node_binary")


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[Intake]:
    made = Intake(tmp_path / "staging", LIMITS)
    yield made
    assert list((tmp_path / "staging").iterdir()) == []


def zip_of(files: dict[str, str | bytes], **modes: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = modes.get(name.replace("/", "_").replace(".", "_"), stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content)
    return buffer.getvalue()


def check(
    intake: Intake,
    data: bytes,
    form: Form = Form.ZIP,
    runtime: str = "python3.11",
    read: Callable[[CheckedUpload], Any] = lambda package: package,
) -> Any:
    with intake.staged() as folder:
        upload = folder / "upload"
        upload.write_bytes(data)
        return read(intake.check(upload, form, runtime=runtime, entrypoint="handler.handle"))


def refused(intake: Intake, data: bytes, form: Form = Form.ZIP, **more: Any) -> SlessError:
    with pytest.raises(SlessError) as caught:
        check(intake, data, form, **more)
    return caught.value


def mistakes(intake: Intake, data: bytes, **more: Any) -> tuple[Finding, ...]:
    return tuple(check(intake, data, read=lambda package: package.mistakes, **more))


def names_and_modes(package: CheckedUpload) -> dict[str, int]:
    with zipfile.ZipFile(package.path) as archive:
        assert archive.testzip() is None
        return {info.filename: info.external_attr >> 16 for info in archive.infolist()}


def test_normalised_zip(intake: Intake) -> None:
    data = zip_of({"p/run.sh": "#!/bin/sh\n", "p/handler.py": HANDLER, "p/ünï.txt": "x", "p/.DS_Store": "x"}, p_run_sh=stat.S_IFREG | 0o755)
    found = check(intake, data, read=names_and_modes)
    assert found == {"handler.py": stat.S_IFREG | 0o644, "run.sh": stat.S_IFREG | 0o755, "ünï.txt": stat.S_IFREG | 0o644}


def test_equal_content_gives_equal_hash_and_bytes(intake: Intake) -> None:
    first = zip_of({"handler.py": HANDLER, "b": "x"})
    second = io.BytesIO()
    with zipfile.ZipFile(second, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("b", "x")
        archive.writestr("handler.py", HANDLER)
    by_json = json.dumps({"files": {"handler.py": HANDLER, "b": {"base64": base64.b64encode(b"x").decode()}}}).encode()

    def both(package: CheckedUpload) -> tuple[str, bytes]:
        return package.sha256, package.path.read_bytes()

    results = {check(intake, first, read=both), check(intake, second.getvalue(), read=both), check(intake, by_json, Form.JSON, read=both)}
    assert len(results) == 1
    assert check(intake, zip_of({"handler.py": HANDLER, "b": "y"})).sha256 != check(intake, first).sha256
    assert check(intake, zip_of({"handler.py": HANDLER, "b": "x"}, b=stat.S_IFREG | 0o755)).sha256 != check(intake, first).sha256


def test_links(intake: Intake) -> None:
    good = zip_of({"handler.py": HANDLER, "alias.py": "handler.py"}, alias_py=stat.S_IFLNK | 0o777)
    assert stat.S_ISLNK(check(intake, good, read=names_and_modes)["alias.py"])
    bad = refused(intake, zip_of({"handler.py": HANDLER, "x": "/etc/passwd"}, x=stat.S_IFLNK | 0o777))
    assert bad.code is Code.INVALID and bad.details[0].field == "x"


def test_names_in_utf8_without_the_flag(intake: Intake) -> None:
    data = zip_of({"handler.py": HANDLER, "ü.txt": "x"})
    flagged = data.replace(struct.pack("<H", 0x800) + struct.pack("<H", 8), struct.pack("<H", 0) + struct.pack("<H", 8))
    assert flagged != data
    assert "ü.txt" in check(intake, flagged, read=names_and_modes)


def zip_with_raw_name(name: bytes) -> bytes:
    """A zip as old tools write it: the bytes of the name, without the UTF-8 flag."""
    return zip_of({"handler.py": HANDLER, "N" * len(name): "x"}).replace(b"N" * len(name), name)


def test_names_in_cp866(intake: Intake) -> None:
    assert "Отчёт №1.txt" in check(intake, zip_with_raw_name("Отчёт №1.txt".encode("cp866")), read=names_and_modes)
    error = refused(intake, zip_with_raw_name("½ ░.txt".encode("cp437")))
    assert error.code is Code.INVALID and "neither UTF-8 nor Cyrillic" in error.details[0].message


def test_an_entry_without_a_name(intake: Intake) -> None:
    assert "expected a readable name" in refused(intake, zip_with_raw_name(b"\0")).details[0].message


def test_back_slashes_in_a_link_as_in_names(intake: Intake) -> None:
    data = zip_of({"handler.py": HANDLER, "pkg\\real.py": "", "alias.py": "pkg\\real.py"}, alias_py=stat.S_IFLNK | 0o777)

    def target(package: CheckedUpload) -> bytes:
        with zipfile.ZipFile(package.path) as archive:
            return archive.read("alias.py")

    assert check(intake, data, read=target) == b"pkg/real.py"
    out = zip_of({"handler.py": HANDLER, "x": "..\\..\\etc"}, x=stat.S_IFLNK | 0o777)
    assert "links out" in refused(intake, out).details[0].message


def test_offset_past_the_end(intake: Intake) -> None:
    data = bytearray(zip_of({"handler.py": HANDLER}))
    at = data.rfind(b"PK\x01\x02") + 42  # of the local header, in the directory
    data[at : at + 4] = b"\xff\xff\xff\xfe"
    error = refused(intake, bytes(data))
    assert error.code is Code.INVALID and "damaged" in error.details[0].message


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "found nothing"),
        (b"hello", "something else"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b'{"files": {}}', "JSON"),
        (b"PK\x03\x04 broken", "damaged"),
        (zip_of({"handler.py": HANDLER})[:-30], "damaged"),
    ],
)
def test_not_a_zip(intake: Intake, data: bytes, text: str) -> None:
    error = refused(intake, data)
    assert error.status == 400 and text in error.message


def test_damaged_content_and_a_password(intake: Intake) -> None:
    data = bytearray(zip_of({"handler.py": HANDLER, "big": "x" * 1000 + HANDLER * 50}))
    at = data.index(b"big") + 20
    data[at : at + 8] = b"\xff" * 8
    assert "damaged" in refused(intake, bytes(data)).message
    locked = bytearray(zip_of({"handler.py": HANDLER}))
    locked[6] |= 1
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    assert "password" in refused(intake, bytes(locked)).message


@pytest.mark.parametrize("name", ["../x.py", "/x.py", "a\\..\\..\\x.py"])
def test_traversal(intake: Intake, name: str) -> None:
    assert refused(intake, zip_of({"handler.py": HANDLER, name: "x"})).status == 400
    assert refused(intake, json.dumps({"files": {"handler.py": HANDLER, name: "x"}}).encode(), Form.JSON).status == 400


def test_duplicates(intake: Intake) -> None:
    buffer = io.BytesIO()
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("handler.py", HANDLER)
        archive.writestr("handler.py", HANDLER)
    assert "twice" in refused(intake, buffer.getvalue()).message


def test_zip_bomb_is_refused_although_headers_lie(intake: Intake) -> None:
    data = zip_of({"handler.py": HANDLER, "zeros": b"\0" * (64 << 20)})
    size = struct.pack("<I", 64 << 20)
    assert data.count(size) == 2
    lying = data.replace(size, struct.pack("<I", 10))
    for upload in (data, lying):
        error = refused(intake, upload)
        assert error.status in (400, 413), error.message
    assert "max_unpacked_bytes" in refused(intake, data).message


ENTRIES = 100_000 if "TEST_SOAK_MESSAGES" in os.environ else 20_000


def test_far_too_many_entries(intake: Intake) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(ENTRIES):
            archive.writestr(zipfile.ZipInfo(f"f{number}"), b"")
    data = buffer.getvalue()
    tracemalloc.start()
    error = refused(intake, data)
    assert tracemalloc.get_traced_memory()[1] < 600 * ENTRIES
    tracemalloc.stop()
    assert error.code is Code.TOO_LARGE and "max_code_files" in error.message


def test_json_form(intake: Intake) -> None:
    files = {"handler.py": HANDLER, "bin": {"base64": "AAH/", "executable": True}, "t": {"text": "x"}}
    package = check(intake, json.dumps({"files": files, "code_hash": "abc"}).encode(), Form.JSON, read=lambda p: (p, names_and_modes(p)))
    assert package[0].code_hash == "abc" and package[1]["bin"] == stat.S_IFREG | 0o755 and package[0].files == 3


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"3",
        b"\xff",
        b"[" * 100_000,
        b"{}",
        b'{"files": []}',
        b'{"files": {"a": 3}}',
        b'{"files": {"a": {"base64": "!"}}}',
        b'{"files": {"a": {"base64": "", "text": ""}}}',
        b'{"files": {"a": {"x": ""}}}',
        b'{"files": {"a": {"text": "", "executable": 1}}}',
        b'{"files": {"a": "\\ud800"}}',
        b'{"files": {"\\ud800": "x"}}',
        b'{"files": {"handler.py": "x"}, "other": 1}',
        b'{"files": {"handler.py": "x"}, "code_hash": 1}',
        b'{"files": {"handler.py": "x"}, "code_hash": "a\\u0000b"}',
        b'{"files": {}}',
    ],
)
def test_bad_json(intake: Intake, body: bytes) -> None:
    assert refused(intake, body, Form.JSON).status == 400


# --- syntax ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def handle(:\n", "line 1: "),
        ("x = 1\nreturn\n", "line 2: 'return' outside function"),
        ("a\x00b", "null"),
        ("x = '\udcff'".encode("utf-8", "surrogateescape"), "line 1"),
        ("(" * 10_000, "too many nested parentheses"),
        ("-" * 200_000 + "1", ""),
        ("x" + ".y" * 200_000, ""),
    ],
)
def test_python_syntax_errors(intake: Intake, source: str | bytes, text: str) -> None:
    (found,) = mistakes(intake, zip_of({"handler.py": HANDLER, "lib/b.py": source}))
    assert text in f"line {found.line}: {found.message}" and found.path == "lib/b.py"


def test_all_broken_files_are_named(intake: Intake) -> None:
    found = mistakes(intake, zip_of({"handler.py": "def", "b.py": "1 +", "c.py": "x = 1"}))
    assert [one.path for one in found] == ["b.py", "handler.py"]


def test_installed_packages_are_not_checked(intake: Intake) -> None:
    files = {
        "handler.py": HANDLER,
        "old/py2.py": "print 'x'",
        "old-1.dist-info/RECORD": "old/py2.py,sha256=x,9\n",
        "node_modules/x.py": "print 'x'",
    }
    assert mistakes(intake, zip_of(files)) == ()
    assert [one.path for one in mistakes(intake, zip_of({**files, "mine.py": "print 'x'"}))] == ["mine.py"]


def test_sources_that_are_not_parsed_are_named(intake: Intake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unparsed(files: dict[str, str | bytes], **more: Any) -> tuple[str, ...]:
        return tuple(check(intake, zip_of(files), read=lambda package: package.unparsed, **more))

    large = {
        "handler.py": HANDLER,
        "handler.js": "1",
        "big.py": "#" * (MAX_SOURCE_BYTES + 1),
        "vendor/big.py": "#" * (MAX_SOURCE_BYTES + 1),
    }
    assert unparsed(large) == ("files over 2 MB: big.py",)
    assert unparsed({"handler.py": HANDLER, "notes.txt": "x" * (MAX_SOURCE_BYTES + 1)}) == ()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unparsed(large, runtime="nodejs20") == ("this server has no Node.js: handler.js",)


@needs_node
def test_node_sources_beyond_the_limits_are_named(intake: Intake) -> None:
    files = {"handler.js": "1", "large.js": "/" * (MAX_SOURCE_BYTES + 1)} | {f"m{number:03}.js": "1" for number in range(MAX_NODE_FILES)}
    found = check(intake, zip_of(files), read=lambda package: package.unparsed, runtime="nodejs20")
    assert found == ("files over 2 MB: large.js", f"more than {MAX_NODE_FILES} files: m499.js")


def test_bom_crlf_and_coding_cookies_are_accepted(intake: Intake) -> None:
    files = {
        "handler.py": b"\xef\xbb\xbf" + HANDLER.replace("\n", "\r\n").encode(),
        "l.py": "# coding: latin-1\nx = '\xe9'\n".encode("latin-1"),
    }
    assert mistakes(intake, zip_of(files)) == ()


@needs_node
@pytest.mark.parametrize(
    ("files", "broken", "line"),
    [
        ({"handler.js": "exports.handle = () => {\n  return (;\n};"}, "handler.js", 2),
        ({"handler.mjs": "export const handle = () => 1;\nlet a = ;"}, "handler.mjs", 2),
        ({"handler.js": "export const handle = () => 1;"}, "handler.js", 1),
        ({"handler.js": "export const handle = () => 1;", "package.json": '{"type": "module"}'}, None, None),
        ({"handler.js": "export const handle = () => 1;", "lib/package.json": '{"type": "module"}'}, "handler.js", 1),
        ({"handler.mjs": "const x = await 1; export const handle = () => x;"}, None, None),
        ({"handler.cjs": "#!/usr/bin/env node\nif (1) return; exports.handle = 1;"}, None, None),
        ({"handler.js": "\ufeffexports.handle = 1", "node_modules/x/bad.js": "(("}, None, None),
        ({"handler.js": "1", "package.json": "not json"}, None, None),
    ],
)
def test_node_syntax(intake: Intake, files: dict[str, str | bytes], broken: str | None, line: int | None) -> None:
    found = mistakes(intake, zip_of(files), runtime="nodejs20")
    assert [(one.path, one.line) for one in found] == ([(broken, line)] if broken else [])
    assert all(one.message.startswith("SyntaxError") for one in found)


# --- what is left behind -----------------------------------------------------------------------------------------------------------------


def test_full_disk_is_507(tmp_path: Path) -> None:
    """A file-size limit stands for the full disk: the kernel refuses the write in the same way (EFBIG instead of ENOSPC)."""
    script = f"""
import resource, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from sless.code.intake import Form, Intake
from sless.domain.package import PackageLimits
from sless.errors import SlessError
intake = Intake(Path({str(tmp_path / "staging")!r}), PackageLimits(unpacked_bytes=1 << 25, files=9))
try:
    with intake.staged() as folder:
        (folder / "upload").write_bytes(Path({str(tmp_path / "code.zip")!r}).read_bytes())
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        intake.check(folder / "upload", Form.ZIP, runtime="python3.11", entrypoint="handler.handle")
except SlessError as error:
    print(error.code)
"""
    (tmp_path / "code.zip").write_bytes(zip_of({"handler.py": HANDLER, "noise": os.urandom(50_000)}))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "storage_full"
    assert list((tmp_path / "staging").iterdir()) == []


def test_old_leftovers_are_removed_at_start(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "upload").write_bytes(b"x")
    os.utime(tmp_path / "old", (0, 0))
    Intake(tmp_path, LIMITS)
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


def test_downloaded_source_uploads_as_the_same_code(intake: Intake) -> None:
    files: dict[str, str | bytes] = {"handler.py": HANDLER, "b.bin": b"\x00\xff", "run.sh": "#!/bin/sh\n", "large": "y" * 300_000 + "é"}
    data = zip_of(files, run_sh=stat.S_IFREG | 0o755)
    first, out = check(intake, data, read=lambda package: (package.sha256, intake.source_json(package.path)))
    shown = json.loads(out)["files"]
    assert shown["handler.py"] == HANDLER and shown["b.bin"] == {"base64": "AP8="} and shown["run.sh"]["executable"] is True
    assert check(intake, out, Form.JSON).sha256 == first


def test_large_source_is_read_in_the_child(intake: Intake) -> None:
    noise = base64.b64encode(os.urandom(400_000)).decode()
    out = check(intake, zip_of({"handler.py": HANDLER, "noise": noise}), read=lambda package: intake.source_json(package.path))
    assert json.loads(out)["files"]["noise"] == noise
