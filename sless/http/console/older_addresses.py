"""Addresses of the earlier console that still work, but need a token."""

import json

from flask import Response, request

from sless.domain.model import Kind
from sless.errors import Code, Detail, Invalid, NotFound, SlessError
from sless.http.body import read_json
from sless.http.console.request import Page, PageRequest, wants_page
from sless.http.console.session import redirect_to
from sless.http.serialize import json_response, trigger_json


def source(req: PageRequest) -> Response:
    """The files of a function's or service's newest code as text; redirects browsers to its page."""
    kind, name = _kind_of(req), req.args["name"]
    if wants_page():
        return redirect_to(f"{req.base}/{kind}s/{name}/code")
    with req.usecases.versions.package(req.namespace, kind, name, None) as package:
        files = json.loads(req.usecases.versions.source_json(package))["files"]
    return Response("\n".join(f"--- {path}\n{_text_of(file)}" for path, file in files.items()), content_type="text/plain; charset=utf-8")


def switch(req: PageRequest) -> Response:
    """PATCH with `{"enabled": …}`. Does not accept the cookie, which a page of another site could use."""
    if not request.headers.get("Authorization"):
        raise SlessError(Code.TOKEN_MISSING, "this path needs the header Authorization: Bearer <token>")
    body = read_json(req.settings.max_json_bytes, required=True)
    if not isinstance(body, dict) or set(body) != {"enabled"}:
        raise Invalid(
            Detail(field="", message='expected {"enabled": true} or false; PATCH /v1/namespaces/{ns}/triggers/{name} changes the rest')
        )
    return json_response(trigger_json(req.usecases.triggers.merge(req.namespace, req.args["name"], body), req.settings))


def _kind_of(req: PageRequest) -> Kind:
    for kind in (Kind.FUNCTION, Kind.SERVICE):
        try:
            req.usecases.workloads(kind).get(req.namespace, req.args["name"])
        except NotFound:
            continue
        return kind
    raise NotFound("function", req.args["name"])


def _text_of(file: str | dict[str, str]) -> str:
    if isinstance(file, str):
        return file
    return file.get("text", "(binary)\n")


PAGES = (
    Page(rule="/funcs/<ns>/source/<name>", view=source),
    Page(rule="/funcs/<ns>/triggers/<name>", view=switch, method="PATCH"),
)
