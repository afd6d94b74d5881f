"""Terraform's real binary, the provider and a real server.

The provider runs in one process for all tests, attached as for debugging: to start it takes most of a second, three times a run. Tests of
the plugin's own start and end use the executable. An attached provider has another working folder: paths of code have to be absolute.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.services import unavailable
from tests.services.product import ROOT, Product, Tenant, running_product

ADDRESSES = ("registry.terraform.io/sless/sless", "registry.example.org/cloud/sless")
TIMEOUT_SEC = 100
HEAD = """
terraform {
  required_providers {
    sless = { source = "sless/sless" }
  }
}
"""
HANDLER = "def handle(event):\n    return {'text': 'one'}\n"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process runs them all: they share the server."""
    for item in items:
        if item.nodeid.startswith("tests/terraform/"):
            item.add_marker(pytest.mark.xdist_group("terraform"))


@pytest.fixture(scope="session")
def terraform_binary() -> str:
    path = shutil.which("terraform") or shutil.which("tofu")
    if path is None:
        unavailable("Terraform", "terraform")
    return path


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Its operator wants one instance of each function to stand."""
    with running_product(tmp_path_factory.mktemp("server"), SLESS_OUTBOUND_ALLOW="127.0.0.0/8", SLESS_MIN_INSTANCES="1") as product:
        yield product


@pytest.fixture(scope="session")
def attached_provider() -> Iterator[str]:
    """The value of TF_REATTACH_PROVIDERS."""
    command = [sys.executable, "-m", "sless.terraform.main", "--debug", *ADDRESSES]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


@dataclass
class Workspace:
    """A folder with a configuration, and Terraform run in it as one tenant."""

    folder: Path
    binary: str
    tenant: Tenant
    environ: dict[str, str]

    def write(self, text: str, head: str = HEAD) -> None:
        (self.folder / "main.tf").write_text(head + text)

    def code(self, text: str = HANDLER, name: str = "code") -> Path:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "handler.py").write_text(text)
        return folder

    def run(self, *arguments: str, environ: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        command = [self.binary, arguments[0], "-no-color", *arguments[1:]]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ | dict(environ or {}),
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SEC,
        )

    def ok(self, *arguments: str, **options: Any) -> str:
        ended = self.run(*arguments, **options)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def fails(self, *arguments: str, **options: Any) -> str:
        """What it printed, as one line: Terraform wraps its texts."""
        ended = self.run(*arguments, **options)
        assert ended.returncode == 1, ended.stdout + ended.stderr
        return " ".join(line.strip("│╷╵ ") for line in (ended.stdout + ended.stderr).splitlines())

    def apply(self, *arguments: str, **options: Any) -> dict[str, Any]:
        """The outputs. They and the state are read from its file: Terraform takes half a second to print them."""
        self.ok("apply", "-auto-approve", *arguments, **options)
        return {name: item["value"] for name, item in self.stored_state()["outputs"].items()}

    def is_unchanged(self) -> bool:
        ended = self.run("plan", "-detailed-exitcode")
        assert ended.returncode in (0, 2), ended.stdout + ended.stderr
        return ended.returncode == 0

    def plan(self, *arguments: str) -> dict[str, Any]:
        """address → {"actions", "before", "after", …} of what a plan changes or imports."""
        self.ok("plan", "-out", "plan.bin", *arguments)
        shown = subprocess.run(
            [self.binary, "show", "-json", "plan.bin"], cwd=self.folder, env=self.environ, capture_output=True, check=True
        )
        changes = json.loads(shown.stdout).get("resource_changes", [])
        shown = {item["address"]: item["change"] for item in changes}
        return {name: item for name, item in shown.items() if item["actions"] not in (["no-op"], ["read"]) or "importing" in item}

    def validate(self, *names: str) -> None:
        """Validates the configurations in these folders in one run, as modules."""
        calls = []
        for name in names:
            variables = re.findall(r'^variable "(\w+)" \{(.*?)\}', (self.folder / name / "main.tf").read_text(), re.MULTILINE | re.DOTALL)
            given = "".join(f'  {variable} = "given"\n' for variable, body in variables if "default" not in body)
            calls.append(f'module "{name}" {{\n  source = "./{name}"\n{given}}}\n')
        self.write("".join(calls))
        self.ok("get")
        self.ok("validate")

    def stored_state(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "terraform.tfstate").read_text()))

    def all_state(self) -> dict[str, dict[str, Any]]:
        """address → attributes of the managed resources, without those of `count` and `for_each`."""
        found = [item for item in self.stored_state()["resources"] if item["mode"] == "managed"]
        return {f"{item['type']}.{item['name']}": item["instances"][0]["attributes"] for item in found}


@pytest.fixture
def workspace(
    tmp_path: Path, terraform_binary: str, product: Product, attached_provider: str, request: pytest.FixtureRequest
) -> Iterator[Workspace]:
    """Of a tenant of its own. What a test leaves is deleted with the namespace."""
    tenant = product.tenant(request.node.name)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "SLESS_"))}
    environ = clean | {
        "TF_REATTACH_PROVIDERS": attached_provider,
        "TF_IN_AUTOMATION": "1",
        "CHECKPOINT_DISABLE": "1",
        "TF_CLI_CONFIG_FILE": os.devnull,
    }
    made = Workspace(tmp_path, terraform_binary, tenant, environ)
    (tmp_path / "provider.tf").write_text(f'provider "sless" {{\n  endpoint = "{product.url}"\n  token    = "{tenant.token}"\n}}\n')
    yield made
    tenant.leave()
