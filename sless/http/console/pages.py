"""The table of pages, and their registration with Flask."""

import re
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, g, request

from sless.actor import Actor, acting
from sless.config import Settings
from sless.domain.model import Kind
from sless.domain.schemas import NAME_PATTERN
from sless.errors import NotFound, SlessError
from sless.http.console import create, guide, listing, older_addresses, operators, signing, tabs, triggers, usage, workload
from sless.http.console.files import versioned
from sless.http.console.request import Page, PageRequest, wanted_texts, wants_page
from sless.http.console.session import redirect_to
from sless.http.errors import error_response
from sless.usecases import Usecases

_NAME = re.compile(NAME_PATTERN)


def unknown(req: PageRequest) -> Response:
    raise NotFound("page", request.path[:80])


PAGES: tuple[Page, ...] = (
    *signing.PAGES,
    *listing.PAGES,
    *workload.PAGES,
    *tabs.PAGES,
    *create.PAGES,
    *usage.PAGES,
    *operators.PAGES,
    *guide.PAGES,
    *older_addresses.PAGES,
    *triggers.PAGES,
    Page(rule="/funcs/<ns>/<path:rest>", view=unknown),
)


def register(app: Flask, usecases: Usecases, settings: Settings) -> None:
    for page in PAGES:
        endpoint = f"{page.method} {page.rule}"
        app.add_url_rule(page.rule, endpoint=endpoint, methods=[page.method], view_func=_view_of(page, usecases, settings))
    app.add_url_rule("/static/v-<tag>/<path:filename>", endpoint="versioned", view_func=versioned)


def _view_of(page: Page, usecases: Usecases, settings: Settings) -> Callable[..., Response]:
    def serve(**args: Any) -> Response:
        req = PageRequest(usecases=usecases, settings=settings, texts=wanted_texts(), args=args)
        try:
            if not page.open:
                req = req.require_session()
            if "ns" in args:
                req = req.in_namespace(args["ns"])
            _check(args)
            if page.method == "GET" or page.open:
                return page.view(req)
            if not req.caller.operator:
                usecases.operators.check_writable(req.namespace, None, None)
            with acting(Actor(sub=req.caller.sub, address=request.remote_addr or "", request_id=g.request_id)):
                return page.view(req)
        except SlessError as error:
            return _other_kind(req, error) or _failed(req, error)

    return serve


def _check(args: dict[str, Any]) -> None:
    if "kind" in args and args["kind"] not in list(Kind):
        raise NotFound("page", request.path[:80])
    if "name" in args and not _NAME.fullmatch(args["name"]):
        raise NotFound(args.get("kind", "resource"), args["name"][:80])


def _other_kind(req: PageRequest, error: SlessError) -> Response | None:
    """Redirects to the page of the service if a link took it for a function, as those of triggers do, since both share their names."""
    if not (isinstance(error, NotFound) and req.args.get("kind") == Kind.FUNCTION and req.namespace and wants_page()):
        return None
    try:
        req.usecases.workloads(Kind.SERVICE).get(req.namespace, req.args["name"])
    except NotFound:
        return None
    return redirect_to(request.full_path.rstrip("?").replace("/functions/", "/services/", 1))


def _failed(req: PageRequest, error: SlessError) -> Response:
    g.error_code = str(error.code)
    if not wants_page():
        return error_response(error)
    return signing.sign_in_page(req, error) if error.status == 401 else signing.error_page(req, error)
