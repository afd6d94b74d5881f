"""Code: upload, versions, source. The rows are the same for functions and services; jobs only have the upload."""

from functools import partial

from flask import Response

from sless.domain.model import Kind
from sless.domain.phase import PhaseView
from sless.http.api_request import ApiRequest
from sless.http.body import received_upload
from sless.http.operation import CURSOR, FLAG, JSON, LIMIT, KindView, Operation, Parameter, Reply, shown
from sless.http.paging import paged
from sless.http.serialize import json_response, upload_json, version_json, with_etag, workload_json

ZIP = "application/zip"
MAX_VERSION = 2**31 - 1
VERSION_NUMBER = Parameter(name="version", text="version number", schema={"type": "integer", "minimum": 1, "maximum": MAX_VERSION})


def upload(kind: Kind, req: ApiRequest) -> Response:
    req.usecases.uploads.check_target(req.namespace, kind, req.name)
    with received_upload(req.usecases, req.settings) as received:
        uploaded = req.usecases.uploads.upload(req.namespace, kind, req.name, received)
    return json_response(upload_json(uploaded, _phase(kind, req)), 202 if uploaded.fresh else 200)


def versions(kind: Kind, req: ApiRequest) -> Response:
    before = req.integer("cursor", 1, MAX_VERSION)
    return paged(
        req,
        lambda limit: req.usecases.versions.list(req.namespace, kind, req.name, limit=limit, before=before),
        lambda view: view.version.number,
        lambda view: version_json(view, req.settings),
    )


def version(kind: Kind, req: ApiRequest) -> Response:
    view = req.usecases.versions.get(req.namespace, kind, req.name, req.number)
    return json_response(version_json(view, req.settings) | {"build_log": view.build_log})


def activate(kind: Kind, req: ApiRequest) -> Response:
    req.usecases.versions.activate(req.namespace, kind, req.name, req.number)
    view = req.usecases.workloads(kind).get(req.namespace, req.name)
    return with_etag(json_response(workload_json(view, req.settings)), view.workload.id, view.workload.generation)


def cancel(kind: Kind, req: ApiRequest) -> Response:
    return json_response(version_json(req.usecases.versions.cancel(req.namespace, kind, req.name, req.number), req.settings))


def rebuild(kind: Kind, req: ApiRequest) -> Response:
    number = req.integer("version", 1, MAX_VERSION)
    return json_response(version_json(req.usecases.versions.rebuild(req.namespace, kind, req.name, number), req.settings), 202)


def source(kind: Kind, req: ApiRequest) -> Response:
    number = req.integer("version", 1, MAX_VERSION)
    as_zip = req.accepts(JSON, ZIP) == ZIP
    with req.usecases.versions.package(req.namespace, kind, req.name, number) as package:
        body = package.read_bytes() if as_zip else req.usecases.versions.source_json(package)
    response = Response(body, content_type=ZIP if as_zip else JSON)
    if as_zip:
        response.headers["Content-Disposition"] = f'attachment; filename="{req.name}.zip"'
    return response


def upload_operation(kind: Kind) -> Operation:
    title = kind.capitalize()
    return Operation(
        id=f"upload{title}",
        method="POST",
        path=f"/v1/namespaces/{{ns}}/{kind}s/{{name}}/upload",
        view=partial(upload, kind),
        tag=f"{kind}s",
        summary=f"Uploads code for a {kind}: a zip, or files as JSON",
        bodies={"multipart/form-data": ("UploadForm",), ZIP: ("binary",), JSON: ("Files",)},
        parameters=(
            Parameter(
                name="code_hash", text="any string; returned as code_hash of the resource", schema={"type": "string", "maxLength": 200}
            ),
        ),
        replies={
            202: shown("Upload", "a new version, queued for building"),
            200: shown("Upload", "unchanged: the newest version already has this code"),
        },
    )


def rebuild_operation(kind: Kind) -> Operation:
    return Operation(
        id=f"rebuild{kind.capitalize()}",
        method="POST",
        path=f"/v1/namespaces/{{ns}}/{kind}s/{{name}}/rebuild",
        view=partial(rebuild, kind),
        tag=f"{kind}s",
        summary=f"Rebuilds the active code of a {kind}, or of any version, with the current runtime; the old version keeps serving",
        parameters=(VERSION_NUMBER,),
        replies={202: shown("Version", "the version being built")},
    )


def operations(kind: Kind) -> tuple[Operation, ...]:
    title = kind.capitalize()
    base = f"/v1/namespaces/{{ns}}/{kind}s/{{name}}"

    def row(verb: str, method: str, path: str, view: KindView, reply: Reply, parameters: tuple[Parameter, ...] = ()) -> Operation:
        return Operation(
            id=f"{verb}{title}" + ("Version" if "{n}" in path else ""),
            method=method,
            path=base + path,
            view=partial(view, kind),
            tag=f"{kind}s",
            summary=_SUMMARIES[verb].format(kind=kind),
            replies={200: reply},
            parameters=parameters,
        )

    follow = Parameter(name="follow", text="1: stream the build log as text", schema=FLAG)
    source_reply = Reply(text="the files", content={JSON: "Source", ZIP: "binary"})
    log_reply = Reply(text="the version", content={JSON: "VersionWithLog", "text/plain": "", "text/event-stream": ""})
    return (
        upload_operation(kind),
        row("source", "GET", "/source", source, source_reply, (VERSION_NUMBER,)),
        row("versions", "GET", "/versions", versions, shown("Versions", "highest first", "Link"), (LIMIT, CURSOR)),
        row("get", "GET", "/versions/{n}", version, log_reply, (follow,)),
        row("activate", "POST", "/versions/{n}/activate", activate, shown(title, f"the {kind}", "ETag")),
        rebuild_operation(kind),
        row("cancel", "POST", "/versions/{n}/cancel", cancel, shown("Version", "the version")),
    )


_SUMMARIES = {
    "source": "The code of a {kind}: of the given version, else of the last one uploaded or activated",
    "versions": "All versions of a {kind}",
    "get": "One version of a {kind}, with its build log",
    "activate": "Activates a ready version, restoring its runtime and entrypoint",
    "cancel": "Cancels a build of a {kind}",
}


def _phase(kind: Kind, req: ApiRequest) -> PhaseView:
    if kind is Kind.JOB:
        return req.usecases.jobs.get(req.namespace, req.name).phase
    return req.usecases.workloads(kind).get(req.namespace, req.name).phase
