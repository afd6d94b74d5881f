"""Converts objects of the earlier operator (`sless.kube5s.ru/v1alpha1`) to requests of the REST interface. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sless.domain.runtimes import RUNTIMES

NAMESPACE = re.compile(r"sless-[0-9a-f]{16}")
BUILT_KEY = "sless.kube5s.ru/last-built-s3key"
_WORKLOADS = {"Function": "function", "Service": "service", "FunctionJob": "job"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """`kind` is function, service, job or trigger; `body` the request that creates it. `code` is (bucket, key), None without code. A job
    keeps its `run_id` without running, and the `result` of its last run. `problem` says why the object cannot be imported, "" if it can;
    `notes` what will differ from the original."""

    namespace: str
    kind: str
    name: str
    body: Json
    code: tuple[str, str] | None = None
    run_id: int = 0
    result: str | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()


def plan_of(item: Mapping[str, Any]) -> ImportPlan:
    """Takes one object as the cluster returns it."""
    meta, spec = item.get("metadata") or {}, dict(item.get("spec") or {})
    kind = str(item.get("kind"))
    namespace, name = str(meta.get("namespace")), str(meta.get("name"))
    shown = _WORKLOADS.get(kind, "trigger")
    if not NAMESPACE.fullmatch(namespace):
        problem = f"namespace {namespace}: expected a tenant's, such as sless-0123456789abcdef"
        return ImportPlan(namespace=namespace, kind=shown, name=name, body={}, problem=problem)
    try:
        return _trigger(namespace, name, spec) if kind == "Trigger" else _workload(shown, namespace, name, item, spec)
    except (TypeError, ValueError) as error:
        return ImportPlan(namespace=namespace, kind=shown, name=name, body={}, problem=f"a field of spec has another type: {error}")


def order_of(plan: ImportPlan) -> tuple[str, int, str]:
    """Sort key: triggers last, as they refer to the others."""
    return plan.namespace, ("function", "service", "job", "trigger").index(plan.kind), plan.name


def _workload(kind: str, namespace: str, name: str, item: Mapping[str, Any], spec: Json) -> ImportPlan:
    runtime = str(spec.get("runtime", ""))
    if runtime not in RUNTIMES:
        problem = f'runtime "{runtime}": expected one of {", ".join(RUNTIMES)}'
        return ImportPlan(namespace=namespace, kind=kind, name=name, body={}, problem=problem)
    notes: list[str] = []
    body: Json = {"name": name, "runtime": runtime, "entrypoint": _entrypoint(runtime, str(spec.get("entrypoint") or ""), notes)}
    body |= {"env_vars": {str(key): str(value) for key, value in dict(spec.get("env") or {}).items()}}
    if spec.get("memoryMB"):
        body["memory_mb"] = int(spec["memoryMB"])
    if spec.get("timeoutSec") or kind == "service":
        body["timeout_sec"] = int(spec.get("timeoutSec") or 0)
    if kind == "job" and spec.get("eventJson"):
        body["event_json"] = str(spec["eventJson"])
    key = str(spec.get("s3Key") or "")
    built = ((item["metadata"].get("annotations") or {}).get(BUILT_KEY)) or key
    if built != key:
        notes.append(f"its newest code {key} had not been built; it will be built")
    if not key:
        notes.append("it has no code")
    return ImportPlan(
        namespace=namespace, kind=kind, name=name, body={**body} if body["entrypoint"] else _without(body, "entrypoint"),
        code=(str(spec.get("s3Bucket") or ""), key) if key else None, run_id=int(spec.get("runId") or 0),
        result=_result_of(item) if kind == "job" else None, notes=tuple(notes),
    )  # fmt: skip


def _entrypoint(runtime: str, given: str, notes: list[str]) -> str:
    """For Node.js, the operator always loaded `handler.js`, whatever module the entrypoint named."""
    if RUNTIMES[runtime].language != "node" or not given:
        return given
    used = "handler." + (given.rpartition(".")[2] or "handle")
    if used != given:
        notes.append(f'entrypoint "{given}" was ignored; it becomes {used}')
    return used


def _trigger(namespace: str, name: str, spec: Json) -> ImportPlan:
    kind = str(spec.get("type", ""))
    body: Json = {"name": name, "type": kind, "function_ref": str(spec.get("functionRef", "")), "enabled": bool(spec.get("enabled", True))}
    problem, notes = "", []
    match kind:
        case "http":
            pass
        case "cron":
            body["schedule"] = str(spec.get("schedule", ""))
            if spec.get("preWarmSeconds") is not None:
                body["pre_warm_seconds"] = int(spec["preWarmSeconds"])
        case "event":
            body["queue"] = str(spec.get("queue", ""))
            notes.append("it uses this server's SLESS_RABBITMQ_URL; give it an amqp_url if its broker is another one")
        case _:
            problem = f'type "{kind}": expected http, cron or event'
    return ImportPlan(namespace=namespace, kind="trigger", name=name, body=body, problem=problem, notes=tuple(notes))


def _result_of(item: Mapping[str, Any]) -> str | None:
    status = item.get("status") or {}
    for field in ("result", "message"):
        if status.get(field) and str(status.get("phase")) == "Succeeded":
            return str(status[field])
    return None


def _without(body: Json, name: str) -> Json:
    return {key: value for key, value in body.items() if key != name}
