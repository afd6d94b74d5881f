"""`create_app` registers every row of the table, verifies tokens, formats errors and sets headers."""

import json
import re
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from sless import assets, ids
from sless.actor import Actor, acting
from sless.config import Settings
from sless.domain.function_urls import function_urls_of
from sless.domain.limits import LimitExceeded
from sless.domain.model import Kind
from sless.domain.schemas import NAME_PATTERN
from sless.domain.validate import expected_of, found_of, suggestion_of
from sless.errors import MAX_DETAILS, NUL_MISTAKE, Code, Detail, Invalid, NotFound, SlessError
from sless.http import console
from sless.http.api_request import NOBODY, ApiRequest
from sless.http.body import MAX_FORM_PARTS, MAX_FORM_TEXT_BYTES, UploadRequest
from sless.http.errors import on_failure, on_http_error, on_sless_error
from sless.http.openapi import NAMESPACE_PATTERN, document
from sless.http.operation import Operation
from sless.http.operators import PREFIX as OPERATOR_PREFIX
from sless.http.table import OPERATIONS
from sless.tokens import TokenVerifier
from sless.usecases import Usecases

_NAME = re.compile(NAME_PATTERN.removeprefix("^").removesuffix("$"))
_NAMESPACE = re.compile(NAMESPACE_PATTERN.removeprefix("^").removesuffix("$"))
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_STATIC_SEC = 300
_READING = frozenset({"GET", "HEAD"})
_KINDS = {f"{kind}s": kind for kind in Kind}
"""Tag of an operation → kind of its workload."""


def create_app(usecases: Usecases, verifier: TokenVerifier, settings: Settings) -> Flask:
    app = Flask("sless", static_folder=str(assets.static_dir()), static_url_path="/static")
    app.request_class = UploadRequest
    app.config.update(
        SEND_FILE_MAX_AGE_DEFAULT=_STATIC_SEC,
        PROPAGATE_EXCEPTIONS=False,
        PROVIDE_AUTOMATIC_OPTIONS=False,
        MAX_FORM_MEMORY_SIZE=MAX_FORM_TEXT_BYTES,
        MAX_FORM_PARTS=MAX_FORM_PARTS,
    )
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    app.extensions["sless_openapi"] = json.dumps(document(OPERATIONS, settings.base_url(), function_urls_of(settings)), ensure_ascii=False)
    app.extensions["sless_verifier"] = verifier
    for row in OPERATIONS:
        if row.tag != "calls" and not row.path.startswith("/funcs"):
            app.add_url_rule(
                _rule_of(row.path), endpoint=row.id, methods=[row.method], view_func=_view_of(row, usecases, verifier, settings)
            )
    console.register(app, usecases, settings)
    app.before_request(_begin)
    app.after_request(_finish)
    app.register_error_handler(SlessError, on_sless_error)
    app.register_error_handler(HTTPException, on_http_error)
    app.register_error_handler(Exception, on_failure)
    return app


def _view_of(row: Operation, usecases: Usecases, verifier: TokenVerifier, settings: Settings) -> Callable[..., Response]:
    # `asgi` serves these rows before Flask gets the request. They are registered so that other methods get a 405.
    view = row.view or _served_by_asgi

    def serve(**args: Any) -> Response:
        caller = NOBODY if row.open else verifier.verify(request.headers.get("Authorization"))
        if row.path.startswith(OPERATOR_PREFIX):
            caller.check_operator()
        if "ns" in args:
            caller.check(args["ns"])
            if not _NAMESPACE.fullmatch(args["ns"]):
                raise NotFound("namespace", args["ns"][:80])
        if "name" in args and not _NAME.fullmatch(args["name"]):
            raise NotFound(row.tag.removesuffix("s"), args["name"][:80])
        if row.path.startswith("/v1/"):
            _check_query(row)
        if row.method not in _READING and "ns" in args and not caller.operator:
            usecases.operators.check_writable(args["ns"], _KINDS.get(row.tag), args.get("name"))
        # `asgi` has set this to the address of the client, even behind trusted proxies.
        actor = Actor(sub=caller.sub, address=request.remote_addr or "", request_id=g.request_id)
        with acting(actor):
            try:
                return view(ApiRequest(usecases=usecases, settings=settings, caller=caller, args=args, request_id=g.request_id))
            except LimitExceeded as error:
                if "ns" in args:
                    usecases.notifications.limit_reached(args["ns"], error)
                raise

    return serve


def _served_by_asgi(req: ApiRequest) -> Response:
    raise SlessError(Code.NOT_IMPLEMENTED, "this path is served by the ASGI front end, which is not running here")


def _check_query(row: Operation) -> None:
    """Raises Invalid for unknown parameters, for NUL, and for values outside an enumeration."""
    known = {item.name: item.schema for item in row.parameters if item.place == "query"}
    mistakes = []
    for name, value in request.args.items(multi=True):
        if name not in known:
            mistakes.append(Detail(field=name[:80], message="unknown query parameter" + suggestion_of(name, known)))
        elif "\0" in value:
            mistakes.append(Detail(field=name, message=NUL_MISTAKE))
        elif "enum" in known[name] and value not in known[name]["enum"]:
            mistakes.append(Detail(field=name, message=f"expected {expected_of(known[name])}, found {found_of(value)}"))
        if len(mistakes) == MAX_DETAILS:
            break
    if mistakes:
        raise Invalid(*mistakes)


def _rule_of(path: str) -> str:
    """Converts OpenAPI's path syntax to Flask's."""
    return path.replace("{n}", "<int(min=1, max=2147483647):n>").replace("{", "<").replace("}", ">")


def _begin() -> None:
    g.request_id = ids.valid_request_id(request.headers.get("X-Request-Id")) or ids.new_call_id()


def _finish(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    if not request.path.startswith("/static/"):
        response.headers.setdefault("Cache-Control", "no-store")
    return response
