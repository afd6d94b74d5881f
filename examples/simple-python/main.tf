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
  name       = "simple-python"
  runtime    = "python3.11"
  source_dir = abspath(path.module)
}

resource "sless_trigger" "http" {
  name         = "simple-python"
  type         = "http"
  function_ref = sless_function.this.name
}

output "url" {
  value = sless_trigger.http.url
}
