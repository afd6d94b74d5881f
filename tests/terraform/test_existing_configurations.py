"""A configuration and a state of the provider before this one, and many resources at once."""

import json
import os

import pytest

LEGACY = """
terraform {
  required_providers {
    sless = {
      source  = "registry.example.org/cloud/sless"
      version = "~> 0.1.20"
    }
  }
}

variable "token" {
  sensitive = true
}

variable "endpoint" {}

provider "sless" {
  nubes_endpoint = var.endpoint
  token          = var.token
}

locals {
  code = "${abspath(path.module)}/code"
}

resource "sless_function" "handler" {
  name        = "handler"
  runtime     = "python3.11"
  entrypoint  = "handler.handle"
  memory_mb   = 0
  timeout_sec = 0
  code_path   = local.code
  code_hash   = sha256(file("${local.code}/handler.py"))
  env_vars    = {}
}

resource "sless_trigger" "http" {
  name     = "handler-http"
  type     = "http"
  function = sless_function.handler.name
  enabled  = true
  schedule = ""
  queue    = ""
}

resource "sless_service" "page" {
  name        = "page"
  runtime     = "python3.11"
  entrypoint  = ""
  memory_mb   = 0
  timeout_sec = 0
  code_path   = local.code
  code_hash   = sha256(file("${local.code}/handler.py"))
}

resource "sless_job" "once" {
  name             = "once"
  runtime          = "python3.11"
  entrypoint       = "handler.handle"
  memory_mb        = 0
  timeout_sec      = 0
  code_path        = local.code
  code_hash        = sha256(file("${local.code}/handler.py"))
  event_json       = jsonencode({ a = 1 })
  run_id           = 1
  wait_timeout_sec = 60
}

output "url" {
  value = sless_trigger.http.trigger_url
}
"""

FORMER = (
    "name",
    "runtime",
    "entrypoint",
    "type",
    "function",
    "enabled",
    "schedule",
    "queue",
    "code_path",
    "code_hash",
    "run_id",
    "env_vars",
)


@pytest.fixture
def legacy(workspace, product):
    (workspace.folder / "provider.tf").unlink()
    workspace.environ |= {"TF_VAR_token": workspace.tenant.token, "TF_VAR_endpoint": product.url}
    workspace.code()
    workspace.write(LEGACY, head="")
    return workspace


def test_a_configuration_of_the_former_provider_applies_and_its_state_is_upgraded(legacy):
    assert legacy.apply()["url"].endswith("/handler")
    assert legacy.is_unchanged()
    assert legacy.tenant.get("functions/handler").json()["memory_mb"] == 128

    state = legacy.stored_state()
    for resource in state["resources"]:
        instance = resource["instances"][0]
        instance["schema_version"] = 0
        kept = (
            "name",
            "runtime",
            "entrypoint",
            "type",
            "function",
            "enabled",
            "schedule",
            "queue",
            "code_path",
            "code_hash",
            "run_id",
            "env_vars",
        )
        instance["attributes"] = {name: value for name, value in instance["attributes"].items() if name in kept}
        instance["attributes"] |= {"id": "id of that provider", "trigger_url": "gone", "last_modified": "unknown to this one"}
        instance["sensitive_attributes"] = []
    (legacy.folder / "terraform.tfstate").write_text(json.dumps(state))
    changes = legacy.plan()
    assert all(change["actions"] == ["update"] for change in changes.values()), changes
    legacy.apply()
    assert legacy.is_unchanged()
    assert legacy.tenant.get("functions/handler").json()["latest_version"] == 1


COUNT = 20 if "TEST_SOAK_MESSAGES" in os.environ else 8
MANY = """
resource "sless_function" "many" {
  count      = %d
  name       = "many-${count.index}"
  runtime    = "python3.11"
  source_dir = "${abspath(path.module)}/code"
}
"""


def test_many_at_once(workspace):
    workspace.code()
    workspace.write(MANY % COUNT)
    workspace.apply("-parallelism=20")
    assert [item["phase"] for item in workspace.tenant.get("functions").json()] == ["Ready"] * COUNT
