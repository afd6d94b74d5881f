"""Jobs."""

from sless.domain.model import Kind
from sless.http.code import upload_operation
from sless.http.history import logs_operation
from sless.http.resources import Resource
from sless.http.serialize import job_json

_JOBS = Resource(
    noun="job",
    usecases=lambda req: req.usecases.jobs,
    row_of=lambda view: view.workload,
    json_of=job_json,
    bodies=("Job",),
    written="Job",
)
OPERATIONS = (
    *_JOBS.operations({
        "create": "Creates a job; with run_id above 0 it runs as soon as it has code",
        "get": "A job, with its result",
        "merge": "Changes the given fields of a job; a higher run_id runs it again",
        "delete": "Deletes a job and stops its run",
    }),
    upload_operation(Kind.JOB),
    logs_operation(Kind.JOB),
)  # fmt: skip
