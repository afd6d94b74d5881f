"""The examples of the documentation; `tests/terraform` validates them."""

PROVIDER = """
terraform {
  required_providers {
    sless = {
      source  = "sless/sless"
      version = "~> 0.1.20"
    }
  }
}

provider "sless" {
  endpoint = "https://functions.example.org"
  # The token is taken from SLESS_API_TOKEN.
}
"""
RESOURCES = {
    "function": """
resource "sless_function" "hello" {
  name       = "hello"
  runtime    = "python3.11"
  entrypoint = "handler.handle"
  source_dir = "${path.module}/hello"
  env_vars   = { GREETING = "Hello" }
}

resource "sless_trigger" "hello" {
  name         = "hello"
  type         = "http"
  function_ref = sless_function.hello.name
}

output "url" {
  value = sless_trigger.hello.url
}
""",
    "service": """
resource "sless_service" "notes" {
  name       = "notes"
  runtime    = "python3.11"
  source_dir = "${path.module}/notes"
  memory_mb  = 256
  secret_env = { PGPASSWORD = var.password }
}

variable "password" {
  sensitive = true
}

output "url" {
  value = sless_service.notes.invoke_url
}
""",
    "trigger": """
resource "sless_trigger" "api" {
  name         = "report-api"
  type         = "http"
  function_ref = "report"
  methods      = ["GET", "POST"]
  auth         = "key"
  rate_limit   = 600
  cors         = { allow_origins = ["https://example.org"] }
}

resource "sless_trigger" "daily" {
  name         = "report-daily"
  type         = "cron"
  function_ref = "report"
  schedule     = "30 4 * * 1-5"
  timezone     = "Europe/Berlin"
  event_json   = jsonencode({ days = 1 })
}

resource "sless_trigger" "orders" {
  name         = "report-orders"
  type         = "event"
  function_ref = "report"
  queue        = "orders"
  amqp_url     = var.amqp_url
}

variable "amqp_url" {
  sensitive = true
}
""",
    "job": """
resource "sless_job" "migrate" {
  name       = "migrate"
  runtime    = "python3.11"
  entrypoint = "migrate.run"
  source_dir = "${path.module}/migrate"
  event_json = jsonencode({ to = "head" })
  run_id     = 1
}

output "result" {
  value = sless_job.migrate.job_message
}
""",
}
DATA_SOURCES = {
    "function": """
data "sless_function" "hello" {
  name = "hello"
}
""",
    "service": """
data "sless_service" "notes" {
  name = "notes"
}
""",
    "namespace": """
data "sless_namespace" "mine" {}
""",
}
