"""`sless init`: each template's tests run with the tools of its language."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sless.cli import main


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_tests(command: list[str], folder: Path) -> str:
    # With the options of the builder, so that Go's standard library is found in the cache.
    env = os.environ | {"GOFLAGS": "-mod=mod -trimpath", "CGO_ENABLED": "0"}
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, env=env)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_the_python_test_runs_and_can_fail(tmp_path):
    assert main(["init", "shop"]) == 0
    command = [sys.executable, "-B", "-m", "unittest"]
    assert "Ran 2 tests" in run_tests(command, tmp_path / "shop")
    handler = tmp_path / "shop" / "handler.py"
    handler.write_text(handler.read_text().replace("Hello, ", "Bye, "))
    assert subprocess.run(command, cwd=tmp_path / "shop", capture_output=True, timeout=60).returncode != 0


def test_the_node_test_runs(tmp_path, node_binary):
    assert main(["init", "shop", "--runtime", "nodejs20"]) == 0
    assert "pass 2" in run_tests([node_binary, "--test"], tmp_path / "shop")


@pytest.mark.timeout(300)
def test_the_go_test_runs(tmp_path, go_toolchain, warm_go):
    assert main(["init", "shop", "--runtime", "go1.23"]) == 0
    assert "ok" in run_tests([str(go_toolchain.binary), "test", "./..."], tmp_path / "shop")
