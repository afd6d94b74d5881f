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

variable "database_url" {
  description = "PostgreSQL to keep the notes in; without one they are in a file of the instance."
  sensitive   = true
  default     = ""
}

resource "sless_service" "notes" {
  name       = "notes"
  runtime    = "python3.11"
  source_dir = abspath(path.module)
  secret_env = var.database_url == "" ? {} : { DATABASE_URL = var.database_url }
}

output "url" {
  value = sless_service.notes.invoke_url
}
