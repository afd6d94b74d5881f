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

variable "amqp_url" {
  description = "RabbitMQ, such as amqps://user:password@mq.example.org/shop."
  sensitive   = true
}

variable "queue" {
  default = "event-log"
}

resource "sless_function" "producer" {
  name       = "event-log-producer"
  runtime    = "python3.11"
  source_dir = "${abspath(path.module)}/producer"
  env_vars   = { QUEUE = var.queue }
  secret_env = { AMQP_URL = var.amqp_url }
}

resource "sless_trigger" "http" {
  name         = "event-log-producer"
  type         = "http"
  function_ref = sless_function.producer.name
}

resource "sless_function" "writer" {
  name       = "event-log-writer"
  runtime    = "python3.11"
  source_dir = "${abspath(path.module)}/writer"
  env_vars = {
    PGHOST     = var.pghost
    PGPORT     = var.pgport
    PGDATABASE = var.pgdatabase
    PGUSER     = var.pguser
  }
  secret_env = { PGPASSWORD = var.pgpassword }
}

resource "sless_trigger" "queue" {
  name         = "event-log-queue"
  type         = "event"
  function_ref = sless_function.writer.name
  queue        = var.queue
  amqp_url     = var.amqp_url
  max_attempts = 3
}

output "url" {
  value = sless_trigger.http.url
}
