"""Functions and services: the same rows under two names."""

from functools import partial

from flask import Response

from sless.domain.model import Kind
from sless.http.call import Call
from sless.http.operation import CURSOR, IF_MATCH, JSON, LIMIT, KindView, Operation, shown
from sless.http.paging import name_cursor, paged
from sless.http.serialize import json_response, with_etag, workload_json
from sless.usecases.views import WorkloadView


def create(kind: Kind, call: Call) -> Response:
    view = call.usecases.workloads.create(call.caller, call.namespace, kind, call.json())
    response = _response(call, view, 201)
    response.headers["Location"] = f"/v1/namespaces/{call.namespace}/{kind}s/{view.workload.name}"
    return response


def list_(kind: Kind, call: Call) -> Response:
    after = name_cursor(call)
    return paged(
        call,
        lambda limit: call.usecases.workloads.list(call.namespace, kind, limit=limit, after=after),
        lambda view: view.workload.name,
        lambda view: workload_json(view, call.settings),
    )


def get(kind: Kind, call: Call) -> Response:
    return _response(call, call.usecases.workloads.get(call.namespace, kind, call.name))


def replace(kind: Kind, call: Call) -> Response:
    return _response(call, call.usecases.workloads.replace(call.namespace, kind, call.name, call.json(), call.if_match))


def merge(kind: Kind, call: Call) -> Response:
    return _response(call, call.usecases.workloads.merge(call.namespace, kind, call.name, call.json(), call.if_match))


def delete(kind: Kind, call: Call) -> Response:
    return _response(call, call.usecases.workloads.delete(call.namespace, kind, call.name, call.if_match), 202)


def operations(kind: Kind) -> tuple[Operation, ...]:
    path = f"/v1/namespaces/{{ns}}/{kind}s"
    title = kind.capitalize()

    def row(verb: str, method: str, view: KindView, summary: str, status: int = 200) -> Operation:
        body = f"{title}{verb.capitalize()}"
        return Operation(
            id=f"{verb}{title}",
            method=method,
            path=path if verb == "create" else path + "/{name}",
            view=partial(view, kind),
            tag=f"{kind}s",
            summary=summary.format(kind=kind),
            bodies={JSON: (body,)} if method in ("POST", "PUT", "PATCH") else {},
            parameters=(IF_MATCH,) if method in ("PUT", "PATCH", "DELETE") else (),
            replies={status: shown(title, f"the {kind}", "ETag")},
        )

    listing = Operation(
        id=f"list{title}s",
        method="GET",
        path=path,
        view=partial(list_, kind),
        tag=f"{kind}s",
        summary=f"All {kind}s by name",
        parameters=(LIMIT, CURSOR),
        replies={200: shown(f"{title}s", f"the {kind}s", "Link")},
    )
    return (
        listing,
        row("create", "POST", create, "Makes a {kind}; its code comes with an upload", 201),
        row("get", "GET", get, "One {kind}"),
        row("replace", "PUT", replace, "Replaces a {kind}: what is not named gets its default; write-only fields stay unless named"),
        row("merge", "PATCH", merge, "Changes the named fields of a {kind}; null restores the default"),
        row("delete", "DELETE", delete, "Deletes a {kind}; it is shown as Deleting until nothing of it runs", 202),
    )


def _response(call: Call, view: WorkloadView, status: int = 200) -> Response:
    response = json_response(workload_json(view, call.settings), status)
    return with_etag(response, view.workload.id, view.workload.generation)
