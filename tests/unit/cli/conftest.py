"""Runs the command line in this process against a server that answers per contract."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sless.cli import main
from sless.client import Client, connect
from tests.unit.cli.contract_server import TOKEN, ContractServer, State


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def server() -> Iterator[ContractServer]:
    with ContractServer() as running:
        yield running


@pytest.fixture
def state(server: ContractServer) -> State:
    return server.state


@pytest.fixture
def client(server: ContractServer) -> Iterator[Client]:
    with connect(server.url, TOKEN) as client:
        yield client


@pytest.fixture
def run(
    server: ContractServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Outcome]:
    """`run("list", "--output", "json")`"""
    monkeypatch.setenv("SLESS_URL", server.url)
    monkeypatch.setenv("SLESS_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def run_command(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = main(list(arguments))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    """Return a folder with a Python function."""
    folder = tmp_path / "hello"
    folder.mkdir()
    (folder / "handler.py").write_text("def handle(event):\n    return 'hi'\n")
    return folder
