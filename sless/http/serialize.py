"""Domain values → JSON of contract §2. Only the fields listed here are returned, so secrets cannot leak."""

import json
from datetime import datetime
from typing import Any

from flask import Response

from sless import clock
from sless.clock import rfc3339_of
from sless.config import Settings
from sless.domain.function_urls import function_urls_of
from sless.domain.instance_bounds import shown_bounds_of
from sless.domain.model import Invocation, Kind, LogLine, TriggerType, VersionState, Workload
from sless.domain.phase import PhaseView
from sless.domain.runtimes import Runtime, Support
from sless.domain.statistics import Series, Slot
from sless.domain.trigger_spec import AMQP_URL, KEY_HASH
from sless.usecases.parts import etag_of
from sless.usecases.uploads import Uploaded
from sless.usecases.versions import VersionView
from sless.usecases.views import JobView, TriggerView, WorkloadView

Json = dict[str, Any]


def json_response(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value, ensure_ascii=False), status, content_type="application/json")


def with_etag(response: Response, resource_id: str, generation: int) -> Response:
    response.headers["ETag"] = etag_of(resource_id, generation)
    return response


def call_url(settings: Settings, namespace: str, name: str) -> str:
    """URL of a function or service."""
    return function_urls_of(settings).of(namespace, name)


def workload_json(view: WorkloadView, settings: Settings) -> Json:
    workload, spec = view.workload, view.workload.spec
    url = call_url(settings, workload.namespace, workload.name) if view.reachable else None
    service = {"invoke_url": url} if workload.kind is Kind.SERVICE else {}
    return {
        "name": workload.name,
        "kind": str(workload.kind),
        "namespace": workload.namespace,
        "runtime": spec.runtime,
        "entrypoint": spec.entrypoint,
        "memory_mb": spec.memory_mb,
        "timeout_sec": spec.timeout_sec,
        "env_vars": spec.env_vars,
        "concurrency": spec.concurrency,
        **shown_bounds_of(workload.kind, spec),
        "event_format": spec.event_format,
        "description": spec.description,
        "display_name": spec.display_name,
        **_phase_json(view.phase, settings),
        "suspended": workload.suspended,
        "ready_instances": workload.observed.ready_instances,
        "last_built_at": _time(view.phase.last_built_at),
        "url": url,
        **service,
        **_times_of(workload, view.phase),
    }


def job_json(view: JobView, settings: Settings) -> Json:
    job, spec, phase = view.workload, view.workload.spec, view.phase
    inherited = spec.function_ref is not None
    return {
        "name": job.name,
        "kind": str(job.kind),
        "namespace": job.namespace,
        "run_id": spec.run_id,
        "event_json": spec.event_json,
        "function_ref": spec.function_ref,
        "runtime": spec.runtime,
        "entrypoint": spec.entrypoint,
        "memory_mb": spec.memory_mb if not inherited or "memory_mb" in spec.set_fields else None,
        "timeout_sec": spec.timeout_sec if not inherited or "timeout_sec" in spec.set_fields else None,
        "env_vars": spec.env_vars,
        "description": spec.description,
        "display_name": spec.display_name,
        **_phase_json(phase, settings),
        "suspended": job.suspended,
        "result": phase.result,
        "run_name": phase.run_name,
        "start_time": _time(phase.start_time),
        "completion_time": _time(phase.completion_time),
        "exit_code": phase.exit_code,
        **_times_of(job, phase),
    }


def trigger_json(view: TriggerView, settings: Settings) -> Json:
    trigger = view.trigger
    url = call_url(settings, trigger.namespace, trigger.function_ref) if trigger.type is TriggerType.HTTP else None
    secret = {
        TriggerType.HTTP: {"has_key": KEY_HASH in trigger.secrets},
        TriggerType.EVENT: {"has_amqp_url": AMQP_URL in trigger.secrets},
        TriggerType.CRON: {},
    }[trigger.type]
    return {
        "name": trigger.name,
        "namespace": trigger.namespace,
        "type": str(trigger.type),
        "function_ref": trigger.function_ref,
        "function": trigger.function_ref,
        "enabled": trigger.enabled,
        **trigger.spec,
        **secret,
        **({"api_key": view.api_key} if view.api_key else {}),
        "active": view.active,
        "url": url,
        "message": view.message,
        "last_schedule_time": _time(trigger.last_schedule_time),
        "next_schedule_time": _time(view.next_schedule_time),
        "last_status": trigger.last_status,
        "created_at": rfc3339_of(trigger.created_at),
        "updated_at": rfc3339_of(trigger.updated_at),
    }


def version_json(view: VersionView, settings: Settings) -> Json:
    version = view.version
    return {
        "version": version.number,
        "number": version.number,
        "state": str(version.state),
        "message": version.message,
        "warnings": list(version.warnings),
        "active": version.number == view.workload.active_version,
        "sha256": version.sha256,
        "code_hash": version.code_hash,
        "runtime": version.runtime,
        "entrypoint": version.entrypoint,
        "image_ref": _image_of(version.artifact, settings) if version.state is VersionState.READY else None,
        "size_bytes": version.size_bytes,
        "created_at": rfc3339_of(version.created_at),
        "created_by": version.created_by,
        "started_at": _time(version.started_at),
        "ended_at": _time(version.ended_at),
    }


def upload_json(uploaded: Uploaded, phase: PhaseView) -> Json:
    version = uploaded.version
    return {
        "version": version.number,
        "sha256": version.sha256,
        "phase": str(phase.phase),
        "message": phase.message if uploaded.fresh else f"version {version.number} already has this code",
        "s3_key": version.code_key,
        "warnings": list(version.warnings),
    }


def invocation_json(call: Invocation) -> Json:
    return {
        "id": call.id,
        "request_id": call.request_id,
        "kind": str(call.kind),
        "name": call.name,
        "version": call.version,
        "trigger": str(call.trigger),
        "method": call.method,
        "path": call.path,
        "status": str(call.status),
        "http_status": call.http_status,
        "duration_ms": call.duration_ms,
        "cold": call.cold,
        "attempts": call.attempts,
        "error": call.error,
        "request_bytes": call.request_bytes,
        "response_bytes": call.response_bytes,
        "started_at": rfc3339_of(call.started_at),
        "finished_at": _time(call.finished_at),
    }


def line_json(line: LogLine) -> Json:
    return {"time": rfc3339_of(line.at), "stream": line.stream, "text": line.text}


def series_json(series: Series, window: str) -> Json:
    total = _slot_json(series.total)
    del total["time"]
    return {
        "window": window,
        "slot_sec": series.slot_sec,
        **total,
        "cold": series.cold,
        "slots": [_slot_json(slot) for slot in series.slots],
    }


def runtime_json(runtime: Runtime) -> Json:
    support = runtime.support(clock.now().date())
    return {
        "name": runtime.name,
        "language": runtime.language,
        "default_entrypoint": runtime.default_entrypoint,
        "end_of_life": runtime.end_of_life,
        "deprecated": support is not Support.SUPPORTED,
        "support": str(support),
    }


def _slot_json(slot: Slot) -> Json:
    counts = {"calls": slot.calls, "errors": slot.errors}
    return {"time": rfc3339_of(slot.at), **counts, "p50_ms": slot.p50_ms, "p95_ms": slot.p95_ms, "p99_ms": slot.p99_ms}


def _phase_json(phase: PhaseView, settings: Settings) -> Json:
    return {
        "phase": str(phase.phase),
        "status": str(phase.phase),
        "message": phase.message,
        "active_version": phase.active_version,
        "latest_version": phase.latest_version,
        "latest_state": str(phase.latest_state) if phase.latest_state else None,
        "code_sha256": phase.code_sha256,
        "code_hash": phase.code_hash,
        "image_ref": _image_of(phase.image_ref, settings),
    }


def _image_of(artifact: str | None, settings: Settings) -> str | None:
    """Only image references are returned; other artifacts (a dependency folder, or the location of small code) are internal."""
    return artifact if artifact and settings.backend == "kubernetes" and "/" in artifact else None


def _times_of(workload: Workload, phase: PhaseView) -> Json:
    return {"created_at": rfc3339_of(workload.created_at), "updated_at": rfc3339_of(phase.changed_at)}


def _time(moment: datetime | None) -> str | None:
    return rfc3339_of(moment) if moment else None
