"""Pages for browsers: landing page, API documentation, `/funcs`; and `/metrics`.

`/funcs` has a login form that stores the token in a cookie: HttpOnly, SameSite=Strict and limited to /funcs. Scripts cannot read it, other
sites cannot use it, and the REST interface never accepts it. A function's script on the same origin cannot fetch or frame the page with it.
"""

import hmac
from typing import Any

from flask import Response, current_app, render_template_string, request

from sless import assets, metrics
from sless._version import __version__
from sless.config import CONSOLE_COOKIE_PREFIX
from sless.errors import Code, NotFound, SlessError
from sless.http.api_request import ApiRequest
from sless.http.errors import error_response
from sless.http.funcs import fields_of, text_of, total_of
from sless.http.operation import JSON, Operation, Parameter, Reply, View
from sless.tokens import Caller, TokenVerifier

TEXT, HTML = "text/plain", "text/html"
COOKIE = CONSOLE_COOKIE_PREFIX + "token"
COOKIE_SEC = 24 * 3600
CONTENT_POLICY = "default-src 'none'; " + "; ".join(
    [
        *(f"{name} 'self'" for name in ("script-src", "style-src", "img-src", "connect-src", "form-action", "base-uri")),
        "frame-ancestors 'none'",
    ]
)

_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }} · sless</title><link rel="icon" href="/static/favicon.svg"><link rel="stylesheet" href="/static/pages.css"></head>
<body><header><a href="/">sless</a> <a href="/funcs">functions</a> <a href="/docs">API</a></header>
<main><h1>{{ title }}</h1>{% block main %}{% endblock %}</main>{{ script }}</body></html>"""
_HOME = """<p>Serverless functions: upload code, get a URL. Version {{ version }}.</p>
<ul><li><a href="/funcs">Functions</a>: everything in your namespace</li><li><a href="/docs">API</a>: all operations, to read and try</li>
<li><a href="/docs/handlers">Handlers</a>: how to write one</li>
<li><a href="/openapi.json">OpenAPI document</a></li></ul>"""
_LOGIN = """{% if reason %}<p class="bad">{{ reason }}</p>{% endif %}
<form method="post" action="/funcs/login"><label>Token <input type="password" name="token" autocomplete="off" required></label>
<button>Show</button></form><p>Create a token with <code>sless token --sub NAME</code>.</p>"""
_LIST = """<p>Namespace <code>{{ namespace }}</code></p>
<form method="post" action="/funcs/logout"><button>Forget the token</button></form>
{% for name, fields in items %}<section><h2>{{ name }}</h2><dl>{% for label, value in fields.items() %}
<dt>{{ label }}</dt><dd>{% if label == "url" %}<a href="{{ value }}">{{ value }}</a>{% else %}{{ value }}{% endif %}</dd>{% endfor %}
</dl></section>{% endfor %}<p>{{ total }}</p>"""


def page(title: str, body: str, status: int = 200, **values: Any) -> Response:
    template = _FRAME.replace("{% block main %}{% endblock %}", body).replace("{{ script }}", values.pop("script", ""))
    response = Response(render_template_string(template, title=title, **values), status, content_type=f"{HTML}; charset=utf-8")
    response.headers["Content-Security-Policy"] = CONTENT_POLICY
    return response


def home(req: ApiRequest) -> Response:
    return page("sless", _HOME, version=__version__)


def docs(req: ApiRequest) -> Response:
    script = '<script type="module" src="/static/docs.js"></script>'
    body = '<p><a href="/docs/handlers">How to write a handler</a></p>'
    body += '<div id="docs"><p>This page needs JavaScript. The document is at <a href="/openapi.json">/openapi.json</a>.</p></div>'
    return page("API", body, script=script)


def handlers(req: ApiRequest) -> Response:
    """The guide in the package, so that it describes this version."""
    guide = (assets.examples_dir() / "README.md").read_text(encoding="utf-8")
    return page("Writing a handler", "<pre>{{ guide }}</pre>", guide=guide.partition("\n")[2].strip())


def openapi(req: ApiRequest) -> Response:
    return Response(current_app.extensions["sless_openapi"], content_type=JSON)


def exposition(req: ApiRequest) -> Response:
    token = req.settings.metrics_token
    sent = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
    if token and not hmac.compare_digest(sent, token.encode()):
        raise SlessError(Code.UNAUTHORIZED, "/metrics requires Authorization: Bearer <SLESS_METRICS_TOKEN>")
    return Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


def funcs(req: ApiRequest) -> Response:
    """Checks the token itself, since a browser without one gets a form instead of JSON."""
    as_page = req.accepts(TEXT, HTML) == HTML
    try:
        caller = _caller()
        namespace = _namespace_of(caller, req)
        items = req.usecases.overview.list(namespace)
    except SlessError as error:
        if as_page and error.status == 401:
            reason = "" if error.code is Code.TOKEN_MISSING else error.message
            return page("Functions", _LOGIN, 401, reason=reason)
        return error_response(error)
    if not as_page:
        return Response(text_of(items, namespace, req.settings), content_type=f"{TEXT}; charset=utf-8")
    shown = [(item.name, fields_of(item, namespace, req.settings)) for item in items]
    return page("Functions", _LIST, namespace=namespace, items=shown, total=total_of(items))


def login(req: ApiRequest) -> Response:
    _same_site()
    request.max_content_length = 64 * 1024
    token = request.form.get("token", "").strip().removeprefix("Bearer ").strip()
    try:
        _verifier().verify(f"Bearer {token}" if token else None)
    except SlessError as error:
        if error.status != 401:
            raise
        return page("Functions", _LOGIN, 401, reason=error.message)
    response = _to_funcs()
    secure = req.settings.base_url().startswith("https://")
    response.set_cookie(COOKIE, token, max_age=COOKIE_SEC, path="/funcs", httponly=True, samesite="Strict", secure=secure)
    return response


def logout(req: ApiRequest) -> Response:
    _same_site()
    response = _to_funcs()
    response.delete_cookie(COOKIE, path="/funcs", httponly=True, samesite="Strict")
    return response


def _caller() -> Caller:
    """Functions under /fn may share this page's origin, and thus its cookie. The cookie is only accepted for pages that the browser opens
    itself, not for fetches or frames."""
    opened = request.headers.get("Sec-Fetch-Dest", "document") == "document"
    cookie = request.cookies.get(COOKIE) if opened else None
    return _verifier().verify(request.headers.get("Authorization") or (f"Bearer {cookie}" if cookie else None))


def _namespace_of(caller: Caller, req: ApiRequest) -> str:
    """Operators may select another namespace with ?ns=."""
    named = req.query("ns")
    namespace = caller.namespace if named is None else named
    caller.check(namespace)
    if req.usecases.tenants.find(namespace) is None and namespace != caller.namespace:
        raise NotFound("namespace", namespace[:80])
    return namespace


def _verifier() -> TokenVerifier:
    verifier: TokenVerifier = current_app.extensions["sless_verifier"]
    return verifier


def _same_site() -> None:
    """Raises FORBIDDEN for forms on pages of other sites."""
    site = request.headers.get("Sec-Fetch-Site")
    if site not in (None, "same-origin", "none"):
        raise SlessError(Code.FORBIDDEN, f"this form must be sent from its own page; Sec-Fetch-Site is {site[:40]}")


def _to_funcs() -> Response:
    return Response(status=303, headers={"Location": "/funcs"})


_FORM = Reply(text="the login form, or an Error", content={HTML: "", JSON: "Error"})


def _row(method: str, path: str, view: View, summary: str, reply: Reply) -> Operation:
    return Operation(
        id=path.strip("/").replace("/", "-").replace(".", "-") or "home",
        method=method,
        path=path,
        view=view,
        tag="server",
        summary=summary,
        replies={303 if method == "POST" else 200: reply} | ({401: _FORM} if view in (funcs, login) else {}),
        bodies={"application/x-www-form-urlencoded": ("LoginForm",)} if view is login else {},
        parameters=(Parameter(name="ns", text="another namespace (operators only)"),) if view is funcs else (),
        open=True,
    )


_PAGE = Reply(text="a page", content={HTML: ""})
_LISTING = Reply(text="the list", content={TEXT: "", HTML: ""})
OPERATIONS = (
    _row("GET", "/", home, "Landing page", _PAGE),
    _row("GET", "/docs", docs, "This document, as a page", _PAGE),
    _row("GET", "/docs/handlers", handlers, "How to write a handler, as a page", _PAGE),
    _row("GET", "/openapi.json", openapi, "This document", Reply(text="OpenAPI 3.1", content={JSON: "Document"})),
    _row("GET", "/metrics", exposition, "Prometheus metrics", Reply(text="the metrics", content={TEXT: ""})),
    _row("GET", "/funcs", funcs, "Functions, services and jobs of a namespace, as text or as a page", _LISTING),
    _row("POST", "/funcs/login", login, "Logs a browser in to /funcs", Reply(text="to /funcs")),
    _row("POST", "/funcs/logout", logout, "Logs the browser out", Reply(text="to /funcs")),
)
