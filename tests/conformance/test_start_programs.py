"""The entrypoints of the runtime images unpack small code, then become the runtime in the same process."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sless.domain.code_archive import archive_of
from tests.conftest import ROOT
from tests.contract.backend_harness import MemoryCode
from tests.services.product import wait_until

LONG = "a-folder-of-a-name-that-is-long/" * 4 + "data.txt"
FILES = {
    "python": {"handler.py": f"TEXT = open('{LONG}').read()\ndef handle(event):\n    return TEXT\n"},
    "node": {"handler.js": f"const text = require('fs').readFileSync('{LONG}', 'utf8');\nexports.handle = () => text;\n"},
}


@pytest.fixture(params=["python", "node"])
def start(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """Return a language and the command of its image."""
    if request.param == "python":
        return "python", [sys.executable, "-E", "-s", "-S", str(ROOT / "runtimes/python3.11/start.py")]
    return "node", [str(request.getfixturevalue("node_binary")), str(ROOT / "runtimes/nodejs20/start.mjs")]


def environment_of(folder: Path, **more: str) -> dict[str, str]:
    given = {"SLESS_CODE_DIR": str(folder / "function"), "SLESS_ENTRYPOINT": "handler.handle", "PATH": os.environ["PATH"], "HOME": "/tmp"}
    return given | more


def packed(folder: Path, files: dict[str, str]) -> Path:
    code = MemoryCode()
    key = code.add(files, executable=("bin/tool",))
    (folder / "function").mkdir(exist_ok=True)
    target = folder / "code.tar.gz"
    with code.open(key) as package:
        target.write_bytes(archive_of(package))
    return target


@contextmanager
def running(command: list[str], environ: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_small_code_is_unpacked_and_served_by_the_same_process(start, tmp_path):
    language, command = start
    archive = packed(tmp_path, {**FILES[language], LONG: "grüße", "bin/tool": "x", "ünïcode.txt": "u"})
    (tmp_path / "function" / "left-by-the-last-run.txt").write_text("x")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with running(command, environment_of(tmp_path, SLESS_CODE_ARCHIVE=str(archive), SLESS_PORT=str(port))) as process:
        url = f"http://127.0.0.1:{port}/"
        wait_until(lambda: _answers(url), "the runtime answers", 60)
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert answer.read().decode() == "grüße"
        health = urllib.request.Request(f"{url}_sless/health", headers={"X-Sless-Control": "1"})
        with urllib.request.urlopen(health, timeout=30) as answer:
            assert json.load(answer)["pid"] == process.pid, "signals reach the runtime"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    names = {path.name for path in (tmp_path / "function").rglob("*")}
    assert "left-by-the-last-run.txt" not in names and "ünïcode.txt" in names
    assert os.access(tmp_path / "function" / "bin" / "tool", os.X_OK)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except OSError:
        return False
    return True


def test_code_in_the_image_runs_unchanged(start, tmp_path):
    language, command = start
    for name, content in {**FILES[language], LONG: "x"}.items():
        (tmp_path / "function" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "function" / name).write_text(content)
    done = subprocess.run(command, env=environment_of(tmp_path, SLESS_MODE="check"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_unreadable_archive_exits_with_an_error(start, tmp_path):
    (tmp_path / "function").mkdir()
    (tmp_path / "code.tar.gz").write_bytes(b"no archive")
    environ = environment_of(tmp_path, SLESS_MODE="check", SLESS_CODE_ARCHIVE=str(tmp_path / "code.tar.gz"))
    done = subprocess.run(start[1], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "cannot unpack the code in" in done.stderr


def test_handlers_do_not_see_the_archive_variable(start, tmp_path):
    language, command = start
    files = {
        "python": {"handler.py": "import os\nassert 'SLESS_CODE_ARCHIVE' not in os.environ\ndef handle(e): pass\n"},
        "node": {"handler.js": "if ('SLESS_CODE_ARCHIVE' in process.env) throw new Error('seen');\nexports.handle = () => 1;\n"},
    }
    archive = packed(tmp_path, files[language])
    environ = environment_of(tmp_path, SLESS_MODE="check", SLESS_CODE_ARCHIVE=str(archive))
    assert subprocess.run(command, env=environ, capture_output=True, check=False).returncode == 0
