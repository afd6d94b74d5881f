# A job that creates a table, then services on it in three languages. README.md says what each one shows.

terraform {
  required_version = ">= 1.5"
  required_providers {
    sless = {
      source  = "sless/sless"
      version = "~> 0.1.20"
    }
  }
}

provider "sless" {}

variable "pghost" {
  description = "Host of PostgreSQL, or the folder of its socket."
  default     = "127.0.0.1"
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

variable "pgsslmode" {
  description = "disable, require or verify-full."
  default     = "disable"
}

locals {
  code = abspath(path.module)
  env = {
    PGHOST     = var.pghost
    PGPORT     = var.pgport
    PGDATABASE = var.pgdatabase
    PGUSER     = var.pguser
    PGSSLMODE  = var.pgsslmode
  }
  secret_env = { PGPASSWORD = var.pgpassword }

  python = {
    pg-counter       = { entrypoint = "pg_counter.count", memory_mb = 128, timeout_sec = 15 }
    pg-dedup         = { entrypoint = "pg_dedup.dedup", memory_mb = 128, timeout_sec = 30 }
    pg-search        = { entrypoint = "pg_search.search", memory_mb = 128, timeout_sec = 15 }
    pg-bulk-insert   = { entrypoint = "pg_bulk_insert.bulk_insert", memory_mb = 256, timeout_sec = 30 }
    pg-delete-old    = { entrypoint = "pg_delete_old.delete_old", memory_mb = 128, timeout_sec = 30 }
    pg-upsert        = { entrypoint = "pg_upsert.upsert", memory_mb = 128, timeout_sec = 15 }
    pg-table-reader  = { entrypoint = "pg_table_reader.read", memory_mb = 128, timeout_sec = 15 }
    pg-table-writer  = { entrypoint = "pg_table_writer.write", memory_mb = 128, timeout_sec = 15 }
    chaos-echo       = { entrypoint = "chaos_echo.echo", memory_mb = 128, timeout_sec = 10 }
    chaos-badparams  = { entrypoint = "chaos_badparams.validate", memory_mb = 128, timeout_sec = 10 }
    chaos-slowquery  = { entrypoint = "chaos_slowquery.slowquery", memory_mb = 128, timeout_sec = 12 }
    chaos-bigpayload = { entrypoint = "chaos_bigpayload.bigpayload", memory_mb = 256, timeout_sec = 15 }
    py-retry-writer  = { entrypoint = "py_retry_writer.retry_write", memory_mb = 128, timeout_sec = 30 }
    stress-divzero   = { entrypoint = "stress_divzero.run", memory_mb = 128, timeout_sec = 10 }
    stress-bigloop   = { entrypoint = "stress_bigloop.run", memory_mb = 128, timeout_sec = 30 }
  }
  node = {
    pg-info       = { entrypoint = "pg_info.run", timeout_sec = 15 }
    js-pg-batch   = { entrypoint = "js_pg_batch.run", timeout_sec = 30 }
    js-idempotent = { entrypoint = "js_idempotent.run", timeout_sec = 15 }
  }
  go = {
    go-pg-race        = { folder = "pg-race", timeout_sec = 30 }
    go-counter-atomic = { folder = "counter", timeout_sec = 10 }
    stress-go-nil     = { folder = "nil", timeout_sec = 10 }
    stress-go-fast    = { folder = "fast", timeout_sec = 10 }
  }
}

resource "sless_job" "table_init" {
  name       = "postgres-table-init"
  runtime    = "python3.11"
  entrypoint = "table_init.run"
  source_dir = "${local.code}/python"
  env_vars   = local.env
  secret_env = local.secret_env
  run_id     = 1
}

resource "sless_service" "python" {
  for_each    = local.python
  name        = each.key
  runtime     = "python3.11"
  entrypoint  = each.value.entrypoint
  memory_mb   = each.value.memory_mb
  timeout_sec = each.value.timeout_sec
  source_dir  = "${local.code}/python"
  env_vars    = local.env
  secret_env  = local.secret_env
  depends_on  = [sless_job.table_init]
}

resource "sless_service" "node" {
  for_each    = local.node
  name        = each.key
  runtime     = "nodejs20"
  entrypoint  = each.value.entrypoint
  timeout_sec = each.value.timeout_sec
  source_dir  = "${local.code}/node"
  env_vars    = local.env
  secret_env  = local.secret_env
  depends_on  = [sless_job.table_init]
}

resource "sless_service" "go" {
  for_each    = local.go
  name        = each.key
  runtime     = "go1.23"
  timeout_sec = each.value.timeout_sec
  source_dir  = "${local.code}/go/${each.value.folder}"
  env_vars    = local.env
  secret_env  = local.secret_env
  depends_on  = [sless_job.table_init]
}

output "urls" {
  value = { for name, service in merge(sless_service.python, sless_service.node, sless_service.go) : name => service.invoke_url }
}
