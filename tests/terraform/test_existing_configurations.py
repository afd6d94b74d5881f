"""A configuration and a state of the former provider, and many resources at once."""

import base64
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
        instance["attributes"] = {name: value for name, value in instance["attributes"].items() if name in FORMER}
        instance["attributes"] |= {"id": "id of that provider", "trigger_url": "gone", "last_modified": "unknown to this one"}
        instance["sensitive_attributes"] = []
        if resource["type"] == "sless_function":
            instance["attributes"]["secret_env"] = {"KEY": "kept by a former Terraform"}
        instance["private"] = base64.b64encode(b'{"schema_version":"0"}').decode()
    (legacy.folder / "terraform.tfstate").write_text(json.dumps(state))
    changes = legacy.plan()
    assert all(change["actions"] == ["update"] for change in changes.values()), changes
    legacy.apply()
    assert legacy.is_unchanged()
    assert legacy.all_state()["sless_function.handler"]["secret_env"] is None
    assert legacy.tenant.get("functions/handler").json()["latest_version"] == 1


BUILT = 20 if "TEST_SOAK_MESSAGES" in os.environ else 4
MANY = """
resource "sless_function" "many" {
  count      = 20
  name       = "many-${count.index}"
  runtime    = "python3.11"
  source_dir = count.index < %d ? "${abspath(path.module)}/code" : null
}
"""
"""20 builds take ten seconds; a function without code is Pending."""


def test_twenty_at_once(workspace):
    workspace.code()
    workspace.write(MANY % BUILT)
    workspace.apply("-parallelism=20")
    found = [(item["phase"], item["latest_version"]) for item in workspace.tenant.get("functions").json()]
    assert sorted(found, key=str) == sorted([("Ready", 1)] * BUILT + [("Pending", None)] * (20 - BUILT), key=str)
