"""Every resource and data source: created, read, imported, and changed or deleted outside Terraform."""

import json

import requests

from tests.terraform.conftest import HANDLER

EVERYTHING = """
resource "sless_function" "plain" {
  name        = "plain"
  runtime     = "python3.11"
  source_dir  = "${abspath(path.module)}/code"
  memory_mb   = 64
  timeout_sec = 5
  env_vars    = { GREETING = "hello" }
  secret_env  = { PASSWORD = "hidden" }
  timeouts { create = "2m" }
}

resource "sless_service" "page" {
  name          = "page"
  runtime       = "python3.11"
  source_dir    = "${abspath(path.module)}/code"
  min_instances = 1
  max_instances = 3
}

resource "sless_trigger" "http" {
  name         = "plain-http"
  type         = "http"
  function_ref = sless_function.plain.name
  methods      = ["GET", "POST"]
  auth         = "key"
  rate_limit   = 100
  cors         = { allow_origins = ["https://example.org"] }
}

resource "sless_trigger" "daily" {
  name         = "daily"
  type         = "cron"
  function_ref = sless_function.plain.name
  schedule     = "0 4 * * *"
  event_json   = jsonencode({ at = 4 })
}

resource "sless_trigger" "queue" {
  name         = "queue"
  type         = "event"
  function_ref = sless_function.plain.name
  queue        = "orders"
  amqp_url     = "amqp://u:p@mq.example.org/"
  enabled      = false
}

resource "sless_job" "own" {
  name       = "own"
  runtime    = "python3.11"
  source_dir = "${abspath(path.module)}/code"
  run_id     = 1
  event_json = jsonencode({ numbers = [1, 2] })
}

resource "sless_job" "borrowed" {
  name         = "borrowed"
  function_ref = sless_function.plain.name
  run_id       = 1
}

data "sless_function" "plain" {
  name = sless_function.plain.name
}

data "sless_service" "page" {
  name = sless_service.page.name
}

data "sless_namespace" "mine" {}

output "all" {
  sensitive = true
  value = {
    trigger_url = sless_trigger.http.trigger_url
    key         = sless_trigger.http.api_key
    invoke_url  = sless_service.page.invoke_url
    own         = sless_job.own.job_message
    borrowed    = sless_job.borrowed.job_message
    namespace   = data.sless_namespace.mine.name
    phase       = data.sless_function.plain.phase
    runtime     = data.sless_service.page.runtime
  }
}
"""
ECHO = """import os


def handle(event):
    return {"event": event, "env": os.environ.get("GREETING", "") + os.environ.get("PASSWORD", "")}
"""
LOCAL = {"source_dir", "write_only_hash", "api_key", "timeouts", "updated_at"}
"""Attributes that the server does not know, shows only once, or changes by itself."""
IMPORTS = {
    "sless_function.plain": "plain",
    "sless_service.page": "page",
    "sless_trigger.http": "plain-http",
    "sless_trigger.daily": "daily",
    "sless_trigger.queue": "queue",
    "sless_job.own": "own",
    "sless_job.borrowed": "borrowed",
}


def test_everything_is_created_imported_and_repaired(workspace):
    workspace.code(ECHO)
    workspace.write(EVERYTHING)
    made = workspace.apply()["all"]
    answer = requests.get(made["trigger_url"], params={"a": "b"}, headers={"X-Sless-Key": made["key"]}, timeout=10)
    assert answer.json() == {"event": {"a": "b"}, "env": "hellohidden"}
    assert requests.get(made["invoke_url"], timeout=10).json() == {"event": {}, "env": ""}
    assert json.loads(made["own"])["event"] == {"numbers": [1, 2]}
    assert json.loads(made["borrowed"]) == {"event": {}, "env": "hellohidden"}
    assert made["namespace"] == workspace.tenant.namespace
    # Terraform reads the data source while it creates triggers, which start an instance.
    workspace.tenant.settled("plain")
    refreshed = workspace.apply("-refresh-only")["all"]
    assert (refreshed["phase"], refreshed["runtime"]) == ("Ready", "python3.11")
    assert workspace.is_unchanged()
    state = workspace.all_state()
    kept = [state["sless_function.plain"]["secret_env"], state["sless_trigger.queue"]["amqp_url"]]
    assert kept == [None, None], "a secret is in the state"

    workspace.tenant.patch("functions/plain", {"memory_mb": 99, "min_instances": 3, "env_vars": {"GREETING": "changed"}})
    workspace.tenant.call("DELETE", "triggers/daily")
    workspace.tenant.upload("page", HANDLER, "service")
    workspace.tenant.settled("page", "service", 2)
    everything = EVERYTHING.replace('"hidden"', '"other"')
    workspace.write(everything)
    changes = workspace.plan()
    assert {address: change["actions"] for address, change in changes.items() if address.startswith("sless_")} == {
        "sless_function.plain": ["update"],
        "sless_service.page": ["update"],
        "sless_trigger.daily": ["create"],
    }
    assert changes["sless_function.plain"]["before"]["memory_mb"] == 99
    assert changes["sless_function.plain"]["after_unknown"]["write_only_hash"], "the secret differs"
    page = changes["sless_service.page"]
    assert page["before"]["code_hash"] != page["after"]["code_hash"], "the code differs"
    made = workspace.apply()["all"]
    assert requests.get(made["invoke_url"], timeout=10).json() == {"event": {}, "env": ""}
    found = workspace.tenant.get("functions/plain").json()
    assert (found["memory_mb"], found["min_instances"]) == (64, 1)
    answer = requests.get(made["trigger_url"], headers={"X-Sless-Key": made["key"]}, timeout=10)
    assert answer.json()["env"] == "helloother"

    before = workspace.all_state()
    (workspace.folder / "terraform.tfstate").unlink()
    blocks = "".join(f'import {{\n  to = {address}\n  id = "{name}"\n}}\n' for address, name in IMPORTS.items())
    workspace.write(everything + blocks)
    imported = workspace.plan()
    assert imported.keys() == IMPORTS.keys()
    for address, change in imported.items():
        assert change["actions"] in (["no-op"], ["update"]), address
        assert _without_local(change["before"]) == _without_local(before[address]), "an import fills in every attribute"
    workspace.apply()
    workspace.write(everything)
    assert workspace.is_unchanged()
    assert workspace.tenant.get("functions/plain").json()["latest_version"] == 1, "an import must not upload existing code"


def _without_local(values):
    return {name: value for name, value in values.items() if name not in LOCAL}
