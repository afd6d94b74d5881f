"""Invalid and hostile uploads to a running server: archives, file lists, dependencies, modules that fail to import."""

import base64
import io
import os
import stat
import struct
import time
import zipfile
from collections.abc import Mapping
from typing import Any

import pytest
import requests

from tests.integration.test_bad_input_requests import refused
from tests.services.product import Tenant, zip_of

HANDLER = "def handle(event):\n    return {'got': event}\n"
ZIP = {"Content-Type": "application/zip"}
ENTRIES = 100_000 if "TEST_SOAK_MESSAGES" in os.environ else 20_000


def upload_zip(tenant: Tenant, data: bytes, name: str = "f") -> requests.Response:
    return tenant.post(f"functions/{name}/upload", data=data, headers=ZIP)


def entries_of(*infos: tuple[str, bytes, int]) -> bytes:
    """A zip with entries of (name, content, Unix mode)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in infos:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.create_system = 3
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


FILE, LINK, DEVICE = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777, stat.S_IFCHR | 0o666
VALID_HANDLER = ("handler.py", HANDLER.encode(), FILE)
REFUSED = {
    "not a zip": b"hello, this is text",
    "empty": b"",
    "cut off": zip_of({"handler.py": HANDLER})[:-30],
    "only the end of a zip": zip_of({"handler.py": HANDLER})[-30:],
    "tar.gz": b"\x1f\x8b\x08" + b"\0" * 200,
    "parent folder": entries_of(VALID_HANDLER, ("../up.py", b"x=1", FILE)),
    "parent folder in the middle": entries_of(VALID_HANDLER, ("a/../../up.py", b"x=1", FILE)),
    "backslashes": entries_of(VALID_HANDLER, ("..\\up.py", b"x=1", FILE)),
    "absolute": entries_of(VALID_HANDLER, ("/etc/cron.d/x", b"x=1", FILE)),
    "drive letter": entries_of(VALID_HANDLER, ("C:\\x.py", b"x=1", FILE)),
    "absolute link out": entries_of(VALID_HANDLER, ("out", b"/etc/passwd", LINK)),
    "relative link out": entries_of(VALID_HANDLER, ("a/out", b"../../etc/passwd", LINK)),
    "file through a link": entries_of(VALID_HANDLER, ("d", b"/tmp", LINK), ("d/x.py", b"x=1", FILE)),
    "device": entries_of(VALID_HANDLER, ("null", b"", DEVICE)),
    "missing entrypoint": entries_of(("other.py", b"x=1", FILE)),
    "syntax": entries_of(("handler.py", b"def handle(:\n", FILE)),
    "NUL in the source": entries_of(("handler.py", b"x = 1\0", FILE)),
}


def test_invalid_archives_are_rejected_and_leave_no_trace(tenant: Tenant) -> None:
    path = tenant.deploy("f", HANDLER)
    for kind, data in REFUSED.items():
        answer = upload_zip(tenant, data)
        assert answer.status_code == 400, f"{kind}: {answer.status_code} {answer.text}"
        body = refused(answer, 400, answer.json()["code"])
        assert body["code"] in ("invalid", "invalid_code"), kind
        assert len(body["error"]) > 15 and str(tenant.product.place.data_dir) not in answer.text, kind
    assert tenant.post(path, 1).json() == {"got": 1}
    assert len(tenant.get("functions/f/versions").json()) == 1
    assert tenant.get("functions/f").json()["phase"] == "Ready"
    assert list((tenant.product.place.data_dir / "uploads").iterdir()) == [], "no staging files"


def test_duplicate_names_are_rejected(tenant: Tenant) -> None:
    tenant.create("f")
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = entries_of(VALID_HANDLER, VALID_HANDLER)
    assert "handler.py" in refused(upload_zip(tenant, data), 400, "invalid")["error"]


def test_a_zip_bomb_is_rejected(tenant: Tenant) -> None:
    """300 MB of zeros in 300 KB, with true and with understated sizes in the headers."""
    tenant.create("f")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("handler.py", HANDLER)
        with archive.open("zeros", "w", force_zip64=True) as file:
            for _ in range(300):
                file.write(b"\0" * (1 << 20))
    bomb = buffer.getvalue()
    assert len(bomb) < 1 << 20
    assert "max_unpacked_bytes" in refused(upload_zip(tenant, bomb), 413, "too_large")["error"]
    lying = zip_of({"handler.py": HANDLER, "zeros": b"\0" * (1 << 20)}).replace(struct.pack("<L", 1 << 20), struct.pack("<L", 5))
    refused(upload_zip(tenant, lying), 400, "invalid")


def test_far_too_many_entries_are_rejected_quickly(tenant: Tenant) -> None:
    tenant.create("f")
    archive = zip_of({"handler.py": HANDLER})
    entry = archive[: archive.index(b"PK\1\2")]
    central = b"".join(_central(f"f{number}.py") for number in range(ENTRIES))
    directory = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(central), len(entry), 0)
    began = time.monotonic()
    answer = upload_zip(tenant, entry + central + directory)
    assert "max_code_files" in refused(answer, 413, "too_large")["error"] and "5000" in answer.text
    assert time.monotonic() - began < 20
    answer = tenant.upload("f", {"handler.py": HANDLER} | {f"f{number}.txt": "" for number in range(ENTRIES)})
    refused(answer, 413, "too_large")


def _central(name: str) -> bytes:
    """An entry of the central directory, for an empty file."""
    return struct.pack("<4s6H3L5H2L", b"PK\1\2", 788, 20, 0, 0, 0, 33, 0, 0, 0, len(name), 0, 0, 0, 0, FILE << 16, 0) + name.encode()


def test_a_zip_over_the_size_limit_is_rejected(tenant: Tenant) -> None:
    tenant.create("f")
    data = b"PK" + b"\0" * (32 << 20)
    assert "max_zip_bytes" in refused(upload_zip(tenant, data), 413, "too_large")["error"]
    answer = tenant.post("functions/f/upload", files={"code": ("code.zip", data)})
    assert "max_zip_bytes" in refused(answer, 413, "too_large")["error"]


@pytest.mark.parametrize(
    "files",
    [
        {}, {"handler.py": 3}, {"handler.py": None}, {"handler.py": {"base64": "%%"}}, {"../x.py": ""}, {"/x.py": ""}, {"": "x"},
        {"handler.py": HANDLER, "handler.py/x": ""}, {"a" * 5000: ""}, {"x\0": ""},
    ],
)  # fmt: skip
def test_invalid_json_file_lists_are_rejected(tenant: Tenant, files: Mapping[str, Any]) -> None:
    tenant.create("f")
    refused(tenant.upload("f", files), 400, "invalid")
    assert tenant.get("functions/f/versions").json() == []


@pytest.mark.parametrize("filler", [os.urandom(3 << 20), b"\n" + b"\0" * (3 << 20)], ids=["noise", "no line ends"])
def test_forms_accept_large_zips(tenant: Tenant, filler: bytes) -> None:
    tenant.create("f")
    buffer = io.BytesIO(zip_of({"handler.py": HANDLER}))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr("filler", filler)
    answer = tenant.post("functions/f/upload", files={"code": ("code.zip", buffer.getvalue())}, data={"code_hash": "h" * 200})
    assert answer.status_code == 202, answer.text
    assert tenant.settled("f")["code_hash"] == "h" * 200


# --- dependencies ---


def wheel_of(package: str) -> bytes:
    """A minimal wheel with a module that holds its own name."""
    info = f"{package}-1.0.dist-info"
    return zip_of(
        {
            f"{package}.py": f"NAME = {package!r}\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": f"{package}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
        }
    )


@pytest.mark.parametrize(
    ("mark", "newline"), [(b"\xef\xbb\xbf", "\n"), (b"", "\r\n"), (b"\xef\xbb\xbf", "\r\n"), (b"\xff\xfe", "\r\n")],
    ids=["BOM", "CRLF", "BOM and CRLF", "UTF-16"],
)  # fmt: skip
def test_requirements_may_have_windows_encodings_and_line_ends(tenant: Tenant, mark: bytes, newline: str) -> None:
    text = newline.join(["# ours", "--no-index", "--find-links wheels", "tinything==1.0  # the wheel beside", ""])
    raw = mark + text.encode("utf-16-le" if mark == b"\xff\xfe" else "utf-8")
    path = tenant.deploy(
        "f",
        {
            "handler.py": "import tinything\n\ndef handle(event):\n    return tinything.NAME\n",
            "requirements.txt": {"base64": base64.b64encode(raw).decode()},
            "wheels/tinything-1.0-py3-none-any.whl": {"base64": base64.b64encode(wheel_of("tinything")).decode()},
        },
    )
    answer = tenant.post(path, {})
    assert (answer.status_code, answer.text) == (200, "tinything")


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        ("--no-index\nno-such-package-anywhere==9\n", "no-such-package-anywhere"),
        ("--no-index\n===\n", "requirements.txt"),
        ("--no-index\n-r other.txt\n", "other.txt"),
        ("--no-index\n--find-links wheels\nbroken==1.0\n", "broken"),
    ],
)
def test_dependencies_that_cannot_be_installed_fail_the_build(tenant: Tenant, requirements: str, expected: str) -> None:
    tenant.create("f")
    broken = {"base64": base64.b64encode(b"PK\3\4 no wheel").decode()}
    files = {"handler.py": HANDLER, "requirements.txt": requirements, "wheels/broken-1.0-py3-none-any.whl": broken}
    assert tenant.upload("f", files).status_code == 202
    failed = tenant.settled("f")
    assert failed["phase"] == "Failed", failed
    assert expected in failed["message"] and str(tenant.product.place.data_dir) not in failed["message"]
    assert expected in tenant.get("functions/f/versions/1").json()["build_log"]


# --- modules ---

BAD_MODULES = {
    "raises": ("raise ValueError('no luck at import')\n", "no luck at import"),
    "missing module": ("import not_to_be_found\n" + HANDLER, "not_to_be_found"),
    "exits": ("import sys\nsys.exit(7)\n", "7"),
    "really exits": ("import os\nos._exit(9)\n", "9"),
    "is killed": ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "SIGSEGV"),
    "missing function": ("def other(event):\n    return 1\n", "handle"),
    "not a function": ("handle = 3\n", "handle"),
    "prints 5 MB and raises": ("print('y' * 5_000_000)\nraise ValueError('after much')\n", "after much"),
    "recurses without end": ("def f():\n    f()\nf()\n", "RecursionError"),
}


@pytest.mark.parametrize("kind", BAD_MODULES)
def test_python_modules_that_fail_to_import_fail_the_build(tenant: Tenant, kind: str) -> None:
    source, expected = BAD_MODULES[kind]
    tenant.create("f")
    assert tenant.upload("f", source).status_code == 202
    failed = tenant.settled("f")
    assert (failed["phase"], failed["latest_state"]) == ("Failed", "failed")
    assert expected in failed["message"], failed["message"]
    assert len(failed["message"]) < 12_000
    tenant.post("triggers", {"name": "f", "type": "http", "function_ref": "f"})
    answer = tenant.post(f"/fn/{tenant.namespace}/f", {})
    assert answer.status_code == 503 and "Retry-After" not in answer.headers
    assert answer.headers["X-Sless-Error"] == "build_failed"


NODE_MODULES = {
    "raises": ("throw new Error('no luck at import');\n", "no luck at import"),
    "exits": ("process.exit(7);\n", "7"),
    "missing module": ("require('not-to-be-found');\n", "not-to-be-found"),
    "missing function": ("exports.other = () => 1;\n", "handle"),
}


@pytest.mark.parametrize("kind", NODE_MODULES)
def test_node_modules_that_fail_to_import_fail_the_build(tenant: Tenant, kind: str, node_binary: str) -> None:
    source, expected = NODE_MODULES[kind]
    tenant.create("f", runtime="nodejs20")
    assert tenant.upload("f", {"handler.js": source}).status_code == 202
    failed = tenant.settled("f")
    assert failed["phase"] == "Failed"
    assert expected in failed["message"], failed["message"]


def test_a_broken_version_leaves_the_old_one_serving(tenant: Tenant) -> None:
    path = tenant.deploy("f", HANDLER)
    assert tenant.upload("f", "raise ValueError('second')\n").status_code == 202
    after = tenant.settled("f", version=2)
    assert (after["phase"], after["active_version"], after["latest_state"]) == ("Ready", 1, "failed")
    assert "2" in after["message"] and "second" in after["message"]
    assert tenant.post(path, 5).json() == {"got": 5}


def test_a_newer_upload_stops_a_module_that_hangs_at_import(tenant: Tenant) -> None:
    tenant.create("f")
    tenant.upload("f", "import time\nprint('importing', flush=True)\ntime.sleep(600)\n")
    tenant.upload("f", HANDLER)
    ready = tenant.settled("f", version=2)
    assert (ready["phase"], ready["active_version"]) == ("Ready", 2)
    assert [version["state"] for version in tenant.get("functions/f/versions").json()] == ["ready", "cancelled"]
