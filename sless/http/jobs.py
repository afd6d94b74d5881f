"""Jobs."""

from flask import Response

from sless.domain.model import Kind
from sless.http.call import Call
from sless.http.code import upload_operation
from sless.http.history import logs_operation
from sless.http.operation import CURSOR, IF_MATCH, JSON, LIMIT, Operation, View, shown
from sless.http.paging import name_cursor, paged
from sless.http.serialize import job_json, json_response, with_etag
from sless.usecases.views import JobView

_PATH = "/v1/namespaces/{ns}/jobs"


def create(call: Call) -> Response:
    view = call.usecases.jobs.create(call.caller, call.namespace, call.json())
    response = _response(call, view, 201)
    response.headers["Location"] = f"/v1/namespaces/{call.namespace}/jobs/{view.workload.name}"
    return response


def list_(call: Call) -> Response:
    after = name_cursor(call)
    return paged(
        call,
        lambda limit: call.usecases.jobs.list(call.namespace, limit=limit, after=after),
        lambda view: view.workload.name,
        lambda view: job_json(view, call.settings),
    )


def get(call: Call) -> Response:
    return _response(call, call.usecases.jobs.get(call.namespace, call.name))


def merge(call: Call) -> Response:
    return _response(call, call.usecases.jobs.merge(call.namespace, call.name, call.json(), call.if_match))


def delete(call: Call) -> Response:
    return _response(call, call.usecases.jobs.delete(call.namespace, call.name, call.if_match), 202)


def _response(call: Call, view: JobView, status: int = 200) -> Response:
    return with_etag(json_response(job_json(view, call.settings), status), view.workload.id, view.workload.generation)


def _row(verb: str, method: str, view: View, summary: str, status: int = 200) -> Operation:
    return Operation(
        id=f"{verb}Job",
        method=method,
        path=_PATH if verb == "create" else _PATH + "/{name}",
        view=view,
        tag="jobs",
        summary=summary,
        bodies={JSON: (f"Job{verb.capitalize()}",)} if method in ("POST", "PATCH") else {},
        parameters=(IF_MATCH,) if method in ("PATCH", "DELETE") else (),
        replies={status: shown("Job", "the job", "ETag")},
    )


OPERATIONS = (
    Operation(
        id="listJobs",
        method="GET",
        path=_PATH,
        view=list_,
        tag="jobs",
        summary="All jobs by name",
        parameters=(LIMIT, CURSOR),
        replies={200: shown("Jobs", "the jobs", "Link")},
    ),
    _row("create", "POST", create, "Makes a job; with run_id above 0 it runs as soon as it has code", 201),
    _row("get", "GET", get, "One job, with its result"),
    _row("merge", "PATCH", merge, "Changes the named fields of a job; a higher run_id runs it again"),
    _row("delete", "DELETE", delete, "Deletes a job and stops its run", 202),
    upload_operation(Kind.JOB),
    logs_operation(Kind.JOB),
)
