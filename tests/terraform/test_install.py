"""The provider as users get it: one file in a filesystem mirror; and the examples of its documentation."""

import subprocess
import sys

import pytest

from sless.terraform import docs_examples
from sless.terraform.version import VERSION
from tests.services.product import ROOT
from tests.terraform.conftest import HEAD

ADDRESS = "registry.example.org/cloud/sless"
CONFIGURATION = """
terraform {
  required_providers {
    sless = {
      source  = "registry.example.org/cloud/sless"
      version = "~> 0.1.20"
    }
  }
}

data "sless_namespace" "mine" {}

output "namespace" {
  value = data.sless_namespace.mine.name
}
"""


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_the_executable_works_from_a_filesystem_mirror(workspace, product):
    build = [
        sys.executable,
        ROOT / ".ci" / "release" / "build_provider.py",
        "--output",
        workspace.folder,
        "--work",
        workspace.folder / "work",
    ]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL, timeout=200)
    executable = workspace.folder / f"terraform-provider-sless_v{VERSION}"
    command = [sys.executable, ROOT / "sless.py", "terraform", "install", executable]
    command += ["--dir", workspace.folder / "mirror", "--address", ADDRESS]
    installed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    (workspace.folder / "terraform.rc").write_text(installed.stdout)
    del workspace.environ["TF_REATTACH_PROVIDERS"]
    workspace.environ |= {
        "TF_CLI_CONFIG_FILE": str(workspace.folder / "terraform.rc"),
        "SHIV_ROOT": str(workspace.folder / "unpacked"),
        "SLESS_ENDPOINT": product.url,
        "SLESS_API_TOKEN": workspace.tenant.token,
    }
    (workspace.folder / "provider.tf").unlink()
    workspace.write(CONFIGURATION, head="")
    workspace.ok("init")
    assert f'namespace = "{workspace.tenant.namespace}"' in workspace.ok("plan"), "a plan reads the data source"


def test_the_examples_of_the_documentation_are_valid(workspace):
    texts = {f"data-{kind}": text for kind, text in docs_examples.DATA_SOURCES.items()} | docs_examples.RESOURCES
    for name, text in texts.items():
        (workspace.folder / name).mkdir()
        (workspace.folder / name / "main.tf").write_text(HEAD + text)
    (workspace.folder / "provider").mkdir()
    (workspace.folder / "provider" / "main.tf").write_text(docs_examples.PROVIDER)
    workspace.validate("provider", *texts)
