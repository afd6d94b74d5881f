"""Functions, services and jobs."""

from sless.domain.model import Kind
from sless.http import code, history, invocations
from sless.http.operation import Operation
from sless.http.resources import Resource
from sless.http.serialize import job_json, workload_json


def operations(kind: Kind) -> tuple[Operation, ...]:
    """The rows of functions, or of services."""
    resource = Resource(
        noun=str(kind),
        usecases=lambda req: req.usecases.workloads(kind),
        row_of=lambda view: view.workload,
        json_of=workload_json,
        bodies=(kind.capitalize(),),
        written=kind.capitalize(),
    )
    return resource.operations({
        "create": f"Creates a {kind}; upload its code next",
        "get": f"A {kind}",
        "replace": f"Replaces a {kind}: omitted fields get their defaults, omitted write-only fields are kept",
        "merge": f"Changes the given fields of a {kind}; null restores the default",
        "delete": f"Deletes a {kind}; its phase is Deleting until nothing of it runs",
    })  # fmt: skip


_JOBS = Resource(
    noun="job",
    usecases=lambda req: req.usecases.jobs,
    row_of=lambda view: view.workload,
    json_of=job_json,
    bodies=("Job",),
    written="Job",
)
_SHARED = ("/source", "/versions", "/versions/{n}", "/versions/{n}/cancel", "/logs", "/invocations", "/invocations/{id}")
"""Paths that jobs share with functions and services. Jobs have no route, so no version to activate, and their runs are cancelled with
them."""


def _is_shared(row: Operation) -> bool:
    return row.path.endswith(tuple("{name}" + path for path in _SHARED)) and (row.method == "GET" or row.path.endswith("/{n}/cancel"))


JOB_OPERATIONS = (
    *_JOBS.operations({
        "create": "Creates a job; with run_id above 0 it runs as soon as it has code",
        "get": "A job, with its result",
        "merge": "Changes the given fields of a job; a higher run_id runs it again",
        "delete": "Deletes a job and stops its run",
    }),
    code.upload_operation(Kind.JOB),
    *(row for part in (code, history, invocations) for row in part.operations(Kind.JOB) if _is_shared(row)),
)  # fmt: skip
