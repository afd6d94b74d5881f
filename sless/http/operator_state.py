"""Failures and queues, for operators: builds, control loops, waiting work."""

from flask import Response

from sless.clock import rfc3339_of
from sless.domain.operators import FailingBuild, QueueDepth, ReconcileError
from sless.http.api_request import ApiRequest
from sless.http.operation import CURSOR, LIMIT, reading, shown
from sless.http.operators import PREFIX
from sless.http.paging import paged, place_cursor, place_text
from sless.http.serialize import Json, json_response

_DEFAULT_LIMIT = 100


def list_failing_builds(req: ApiRequest) -> Response:
    after, find = place_cursor(req), req.usecases.operators.failing_builds
    return paged(req, lambda limit: find(limit, after), lambda item: place_text(item.place), failing_build_json, default=_DEFAULT_LIMIT)


def list_reconcile_errors(req: ApiRequest) -> Response:
    after, find = place_cursor(req), req.usecases.operators.reconcile_errors
    return paged(req, lambda limit: find(limit, after), lambda item: place_text(item.place), reconcile_error_json, default=_DEFAULT_LIMIT)


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


OPERATIONS = (
    reading(
        "listFailingBuilds", PREFIX + "failing-builds", list_failing_builds, "operators",
        "Functions, services and jobs whose newest version failed to build, the newest failure first",
        shown("FailingBuilds", "the builds", "Link"), LIMIT, CURSOR,
    ),
    reading(
        "listReconcileErrors", PREFIX + "reconcile-errors", list_reconcile_errors, "operators",
        "Internal errors of the control loops, of all replicas: the newest per loop and workload, with their number",
        shown("ReconcileErrors", "the errors, newest first", "Link"), LIMIT, CURSOR,
    ),
    reading(
        "listQueues", PREFIX + "queues", list_queues, "operators",
        "How many calls, builds, runs, callbacks and notices wait, and since when. Calls are those of the replica that answers",
        shown("Queues", "the queues"),
    ),
)  # fmt: skip
