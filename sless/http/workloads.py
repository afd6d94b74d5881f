"""Functions and services, which have the same rows."""

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
        "create": f"Creates a {kind}; upload its code next",
        "get": f"A {kind}",
        "replace": f"Replaces a {kind}: omitted fields get their defaults, omitted write-only fields are kept",
        "merge": f"Changes the given fields of a {kind}; null restores the default",
        "delete": f"Deletes a {kind}; its phase is Deleting until nothing of it runs",
    })  # fmt: skip
