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

variable "pghost" {
  default = "127.0.0.1"
}

variable "pgport" {
  default = "5432"
}

variable "pgdatabase" {
  default = "postgres"
}

variable "pguser" {
  default = "postgres"
}

variable "pgpassword" {
  sensitive = true
  default   = ""
}

resource "sless_function" "this" {
  name       = "pg-list-python"
  runtime    = "python3.11"
  source_dir = abspath(path.module)
  env_vars = {
    PGHOST     = var.pghost
    PGPORT     = var.pgport
    PGDATABASE = var.pgdatabase
    PGUSER     = var.pguser
  }
  secret_env = { PGPASSWORD = var.pgpassword }
}

resource "sless_trigger" "http" {
  name         = "pg-list-python"
  type         = "http"
  function_ref = sless_function.this.name
}

output "url" {
  value = sless_trigger.http.url
}
