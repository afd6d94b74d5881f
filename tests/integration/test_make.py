"""The Makefile and its scripts report missing tools in one line."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path = ROOT, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or os.environ["PATH"], "MAKEFLAGS": "", "MAKELEVEL": "0", "CI": ""}
    return subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def folder_of_tools(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return folder


def test_help_lists_every_target():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (\S+)", text, re.MULTILINE))
    listed = set(re.findall(r"^  make (\S+) +\S", run("make", "help").stdout, re.MULTILINE))
    assert listed == targets
    assert targets >= {"demo", "test", "check", "architecture", "unit", "contract", "bench", "pyz", "lock", "clean", "help"}


def test_installing_prints_a_line_per_package(tmp_path):
    """With a pip that only prints."""
    lines = [
        "Collecting six==1.17.0 (from -r x (line 1))",
        "  Using cached six.whl",
        "Installing collected packages: six",
        "Successfully",
    ]
    python = program(tmp_path, "python", "printf '%s\\n' " + " ".join(f'"{line}"' for line in lines))
    shown = run("make", f"BIN={python.parent}", f"VENV={tmp_path}", f"{tmp_path}/.run-stamp").stdout.splitlines()
    assert [line for line in shown if line.startswith("  ")] == ["  six==1.17.0", "  unpacking"]


def test_demo_announces_each_installation_before_it_starts():
    lines = [line.strip() for line in run("make", "-n", "-B", "demo").stdout.splitlines()]
    for announcement, command in (
        ("Creating .venv", "make_venv.sh"),
        ("Installing the packages", "-r requirements.txt"),
        ("Building dist", "build_zipapp.py"),
    ):
        announced = next(number for number, line in enumerate(lines) if announcement in line)
        assert announced < next(number for number, line in enumerate(lines) if command in line), announcement


class TestMakeVenv:
    SCRIPT = ROOT / ".ci" / "release" / "make_venv.sh"

    def test_no_python(self, tmp_path: Path):
        done = run("bash", self.SCRIPT, "", tmp_path / "venv")
        assert (done.returncode, done.stderr) == (
            1,
            "sless: no Python found, 3.11 is needed: apt-get install python3.11 python3.11-venv\n",
        )

    def test_another_python(self, tmp_path: Path):
        python = program(tmp_path, "python3", "echo 3.9")
        done = run("bash", self.SCRIPT, python, tmp_path / "venv")
        assert done.returncode == 1
        assert f"sless: Python 3.11 is needed, {python} is 3.9." in done.stderr
        assert "make PYTHON=" in done.stderr

    def test_python_without_venv(self, tmp_path: Path):
        folder = tmp_path / "venv"
        python = program(tmp_path, "python3", f'[ "$1" = -c ] && echo 3.11 && exit; mkdir {folder}; echo no ensurepip; exit 1')
        done = run("bash", self.SCRIPT, python, folder)
        assert done.returncode == 1
        assert "no ensurepip" in done.stderr
        assert done.stderr.endswith("On Debian and Ubuntu: apt-get install python3.11-venv\n")
        assert not folder.exists(), "an incomplete environment would be used the next time"

    def test_a_path_with_a_space(self, tmp_path: Path):
        python = program(tmp_path / "my tools", "python3.11", f'[ "$1" = -c ] && echo 3.11 && exit; touch {tmp_path}/made')
        assert run("bash", self.SCRIPT, python, tmp_path / "venv").returncode == 0
        assert (tmp_path / "made").exists()


PROGRAMS = {
    "bwrap": "bubblewrap",
    "docker-registry": "docker-registry",
    "buildah": "buildah",
    "chromium": "chromium",
    "promtool": "prometheus",
    "wrk": "wrk",
    "nginx": "nginx-light",
    "systemd-analyze": "systemd",
}
"""program → Debian's package, in the order in which they are checked."""


class TestInstallServices:
    SCRIPT = ROOT / "tests" / "install_services.sh"

    @pytest.fixture
    def tools(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A PATH with the tools that only Debian provides, except PostgreSQL."""
        made = folder_of_tools(tmp_path / "tools", "bash", "sed", "dirname", "mkdir", "ln")
        for name in PROGRAMS:
            program(made, name, "")
        monkeypatch.setenv("DEBIAN_RABBITMQ", str(made))
        return made

    def test_everything_installed(self, tools: Path, tmp_path: Path):
        program(tools, "node", "echo v20.1.0")
        program(tools, "npm", "")
        program(tools, "postgres", "")
        done = run("bash", self.SCRIPT, "no-venv", path=str(tools))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    @pytest.mark.parametrize("version", ["v18.20.4", ""])
    def test_an_old_or_missing_node_is_installed_from_the_lock(self, tools: Path, tmp_path: Path, version: str):
        program(tools, "postgres", "")
        if version:
            program(tools, "node", f"echo {version}")
            program(tools, "npm", "")
        venv = tmp_path / "venv"
        venv.mkdir()
        program(venv / "bin", "python", f'echo "$@" >> {tmp_path}/calls; echo /node/root')
        done = run("bash", self.SCRIPT, os.path.relpath(venv, ROOT), path=str(tools))
        assert done.returncode == 0, done.stderr
        assert f"-r {self.SCRIPT.parent}/node.txt" in (tmp_path / "calls").read_text()
        assert os.readlink(venv / "bin" / "node") == "/node/root/bin/node"

    def test_everything_missing_and_not_root(self, tools: Path, monkeypatch: pytest.MonkeyPatch):
        for name in ("DEBIAN_RABBITMQ", "DEBIAN_POSTGRES"):
            monkeypatch.setenv(name, "/nowhere")
        for name, output in (("npm", ""), ("node", "echo v22.0.0"), ("id", "echo 1000")):
            program(tools, name, output)
        for name in PROGRAMS:
            (tools / name).unlink()
        done = run("bash", self.SCRIPT, "no-venv", path=str(tools))
        assert done.returncode == 0
        packages = [line.rpartition(" ")[2] for line in done.stderr.splitlines()]
        assert packages == ["postgresql", "rabbitmq-server", *PROGRAMS.values()]

    def test_postgres_missing_and_not_root(self, tools: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("DEBIAN_POSTGRES", "/nowhere")
        program(tools, "id", "echo 1000")
        program(tools, "node", "echo v22.0.0")
        program(tools, "npm", "")
        done = run("bash", self.SCRIPT, "no-venv", path=str(tools))
        assert done.returncode == 0
        assert done.stderr == "sless: tests on PostgreSQL need its server; on Debian and Ubuntu: apt-get install postgresql\n"
