"""Functions and services: the same rows under two names."""

from sless.domain.model import Kind
from sless.http.operation import Operation
from sless.http.resources import Resource
from sless.http.serialize import workload_json


def operations(kind: Kind) -> tuple[Operation, ...]:
    resource = Resource(
        noun=str(kind),
        usecases=lambda req: req.usecases.workloads(kind),
        row_of=lambda view: view.workload,
        json_of=workload_json,
        bodies=(kind.capitalize(),),
        written=kind.capitalize(),
    )
    return resource.operations({
        "create": f"Makes a {kind}; its code comes with an upload",
        "get": f"One {kind}",
        "replace": f"Replaces a {kind}: what is not named gets its default; write-only fields stay unless named",
        "merge": f"Changes the named fields of a {kind}; null restores the default",
        "delete": f"Deletes a {kind}; it is shown as Deleting until nothing of it runs",
    })  # fmt: skip
