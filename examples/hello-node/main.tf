terraform {
  required_version = ">= 1.5"
  required_providers {
    sless = {
      source  = "sless/sless"
      version = "~> 0.1.20"
    }
  }
}

# SLESS_ENDPOINT and SLESS_API_TOKEN say where and who.
provider "sless" {}

resource "sless_function" "this" {
  name       = "hello-node"
  runtime    = "nodejs20"
  source_dir = abspath(path.module)
}

resource "sless_trigger" "http" {
  name         = "hello-node"
  type         = "http"
  function_ref = sless_function.this.name
}

output "url" {
  value = sless_trigger.http.url
}

resource "sless_trigger" "daily" {
  name         = "hello-node-daily"
  type         = "cron"
  function_ref = sless_function.this.name
  schedule     = "0 9 * * *"
  event_json   = jsonencode({ name = "the morning" })
}

resource "sless_job" "sum" {
  name       = "hello-node-sum"
  runtime    = "nodejs20"
  source_dir = "${abspath(path.module)}/sum"
  event_json = jsonencode({ numbers = [100, 200, 300] })
  run_id     = 1
}

output "sum" {
  value = jsondecode(sless_job.sum.job_message).sum
}
