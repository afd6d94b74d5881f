"""Failures and queues, for operators: builds, control loops, waiting work."""

from flask import Response

from sless.clock import rfc3339_of
from sless.domain.operators import FailingBuild, QueueDepth, ReconcileError
from sless.http.api_request import ApiRequest
from sless.http.operation import LIMIT, reading, shown
from sless.http.operators import PREFIX
from sless.http.paging import MAX_PAGE
from sless.http.serialize import Json, json_response

_DEFAULT_LIMIT = 100


def list_failing_builds(req: ApiRequest) -> Response:
    return json_response([failing_build_json(item) for item in req.usecases.operators.failing_builds(_limit_of(req))])


def list_reconcile_errors(req: ApiRequest) -> Response:
    return json_response([reconcile_error_json(item) for item in req.usecases.operators.reconcile_errors(_limit_of(req))])


def list_queues(req: ApiRequest) -> Response:
    return json_response([queue_json(item) for item in req.usecases.operators.queues()])


def failing_build_json(item: FailingBuild) -> Json:
    return {
        "namespace": item.namespace,
        "kind": str(item.kind),
        "name": item.name,
        "version": item.version,
        "active_version": item.active,
        "message": item.message,
        "failed_at": rfc3339_of(item.failed_at),
    }


def reconcile_error_json(item: ReconcileError) -> Json:
    return {
        "loop": item.loop,
        "namespace": item.namespace,
        "kind": str(item.kind) if item.kind else None,
        "name": item.name,
        "message": item.message,
        "count": item.count,
        "first_at": rfc3339_of(item.first_at),
        "last_at": rfc3339_of(item.last_at),
    }


def queue_json(item: QueueDepth) -> Json:
    return {"queue": item.queue, "waiting": item.waiting, "due_at": rfc3339_of(item.due_at) if item.due_at else None}


def _limit_of(req: ApiRequest) -> int:
    return req.integer("limit", 1, MAX_PAGE) or _DEFAULT_LIMIT


OPERATIONS = (
    reading(
        "listFailingBuilds", PREFIX + "failing-builds", list_failing_builds, "operators",
        "Functions, services and jobs whose newest version failed to build, the newest failure first",
        shown("FailingBuilds", "the builds"), LIMIT,
    ),
    reading(
        "listReconcileErrors", PREFIX + "reconcile-errors", list_reconcile_errors, "operators",
        "Internal errors of the control loops, of all replicas: the newest per loop and workload, with their number",
        shown("ReconcileErrors", "the errors, newest first"), LIMIT,
    ),
    reading(
        "listQueues", PREFIX + "queues", list_queues, "operators", "How many builds, runs, callbacks and notices wait, and since when",
        shown("Queues", "the queues"),
    ),
)  # fmt: skip
