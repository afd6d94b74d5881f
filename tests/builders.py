"""Domain objects with sensible defaults; a test sets only the fields that matter to it."""

from datetime import UTC, datetime
from typing import Any

from sless import ids
from sless.domain.model import (
    CallStatus,
    CallTrigger,
    Endpoint,
    Invocation,
    Kind,
    LogLine,
    Observed,
    Run,
    Trigger,
    TriggerType,
    Version,
    VersionState,
    Workload,
    WorkloadSpec,
)
from sless.domain.statistics import LATENCY_BOUNDS_MS, CallStats
from sless.store import FixedKeys, Keyring

NAMESPACE = "sless-0123456789abcdef"
ENCRYPTION_KEY = "YSBrZXkgb2YgdGhlIHRlc3RzLCBvZiAzMiBieXRlcy4="
KEYRING = Keyring(FixedKeys([ENCRYPTION_KEY]))
AT = datetime(2026, 1, 31, 9, 26, 53, 589_000, tzinfo=UTC)


def make_workload_spec(**changes: Any) -> WorkloadSpec:
    return WorkloadSpec(**{"runtime": "python3.11", "entrypoint": "handler.handle"} | changes)


def make_workload(**changes: Any) -> Workload:
    """`spec` may be a dict of changes to the default spec."""
    values: dict[str, Any] = {
        "id": ids.new_id(),
        "namespace": NAMESPACE,
        "kind": Kind.FUNCTION,
        "name": "hello",
        "generation": 1,
        "active_version": None,
        "observed": Observed(),
        "created_at": AT,
        "updated_at": AT,
    }
    spec = changes.pop("spec", {})
    return Workload(**values | changes, spec=make_workload_spec(**spec) if isinstance(spec, dict) else spec)


def make_version(**changes: Any) -> Version:
    values: dict[str, Any] = {
        "id": ids.new_id(),
        "workload_id": "w1",
        "number": 1,
        "sha256": "a" * 64,
        "code_hash": None,
        "runtime": "python3.11",
        "entrypoint": "handler.handle",
        "state": VersionState.READY,
        "message": "",
        "code_key": "ns/w1/a.zip",
        "artifact": "",
        "size_bytes": 100,
        "attempts": 1,
        "auto_activate": True,
        "build_env": {},
        "created_at": AT,
        "started_at": AT,
        "ended_at": AT,
    }
    return Version(**values | changes)


def make_trigger(**changes: Any) -> Trigger:
    values: dict[str, Any] = {
        "id": ids.new_id(),
        "namespace": NAMESPACE,
        "name": "front",
        "type": TriggerType.HTTP,
        "function_ref": "hello",
        "enabled": True,
        "spec": {},
        "secrets": {},
        "generation": 1,
        "created_at": AT,
        "updated_at": AT,
    }
    return Trigger(**values | changes)


def make_run(**changes: Any) -> Run:
    run_id = changes.get("id", ids.new_id())
    values: dict[str, Any] = {
        "id": run_id,
        "namespace": NAMESPACE,
        "workload_id": "w1",
        "kind": Kind.FUNCTION,
        "name": "hello",
        "trigger": CallTrigger.INVOKE,
        "request_id": run_id,
        "event": "{}",
        "max_attempts": 3,
        "not_before": AT,
        "created_at": AT,
    }
    return Run(**values | changes)


def make_endpoint(**changes: Any) -> Endpoint:
    values: dict[str, Any] = {
        "id": ids.new_id(),
        "workload_id": "w1",
        "version": 1,
        "address": "unix:/run/sless/abc.sock",
        "draining": False,
        "created_at": AT,
    }
    return Endpoint(**values | changes)


def make_invocation(**changes: Any) -> Invocation:
    call_id = changes.get("id", ids.new_id())
    values: dict[str, Any] = {
        "id": call_id,
        "request_id": call_id,
        "namespace": NAMESPACE,
        "workload_id": "w1",
        "kind": Kind.FUNCTION,
        "name": "hello",
        "version": 1,
        "trigger": CallTrigger.HTTP,
        "method": "POST",
        "path": "/",
        "status": CallStatus.SUCCEEDED,
        "http_status": 200,
        "duration_ms": 1.5,
        "cold": False,
        "attempts": 1,
        "error": None,
        "request_bytes": 10,
        "response_bytes": 20,
        "started_at": AT,
        "finished_at": AT,
    }
    return Invocation(**values | changes)


def make_log_line(**changes: Any) -> LogLine:
    values: dict[str, Any] = {
        "source_id": "i1",
        "seq": 1,
        "workload_id": "w1",
        "invocation_id": "",
        "at": AT,
        "stream": "stdout",
        "text": "hello",
    }
    return LogLine(**values | changes)


def make_call_stats(**changes: Any) -> CallStats:
    values: dict[str, Any] = {
        "namespace": NAMESPACE,
        "workload_id": "w1",
        "kind": Kind.FUNCTION,
        "name": "hello",
        "version": 1,
        "minute": AT.replace(second=0, microsecond=0),
        "calls": 1,
        "errors": 0,
        "gb_ms": 125.0,
        "duration_ms": 1000.0,
        "histogram": (1,) + (0,) * len(LATENCY_BOUNDS_MS),
    }
    return CallStats(**values | changes)
