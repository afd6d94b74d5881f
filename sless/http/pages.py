"""Pages for browsers that need no token: landing page, API documentation; and `/metrics`. `console` has the others."""

import hmac
from typing import Any

from flask import Response, current_app, render_template_string, request

from sless import assets, metrics
from sless._version import __version__
from sless.errors import Code, SlessError
from sless.http.api_request import ApiRequest
from sless.http.markdown import html_of
from sless.http.operation import JSON, Operation, Parameter, Reply, View, shown

TEXT, HTML = "text/plain", "text/html"
CONTENT_POLICY = "default-src 'none'; " + "; ".join(
    [
        *(f"{name} 'self'" for name in ("script-src", "style-src", "img-src", "connect-src", "form-action", "base-uri")),
        "frame-ancestors 'none'",
    ]
)

_MARK = """<svg class="mark" viewBox="0 0 24 24" aria-hidden="true"><rect x="1" y="1" width="22" height="22" rx="7" fill="currentColor"/>
<path d="M15.8 8.1c-.9-.9-2.2-1.4-3.8-1.4-2.3 0-3.9 1.1-3.9 2.8 0 3.9 7.3 1.6 7.3 5 0 1.7-1.5 2.8-3.8 2.8-1.7 0-3.2-.6-4.1-1.7" fill="none"
 stroke="var(--surface)" stroke-width="2.2" stroke-linecap="round"/></svg>"""
_FRAME = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{{{ title }}}} · sless</title><link rel="icon" href="/static/favicon.svg"><link rel="stylesheet" href="/static/pages.css"></head>
<body><header><nav><a class="brand" href="/">{_MARK}sless</a> <a href="/funcs">Console</a> <a href="/docs">API</a></nav></header>
<main><h1>{{{{ title }}}}</h1>{{% block main %}}{{% endblock %}}</main>{{{{ script }}}}</body></html>"""
_HOME = """<p>Upload code, get a URL. Version {{ version }}.</p>
<ul class="links"><li><a href="/funcs"><strong>Console</strong>Write, run and watch your functions</a></li>
<li><a href="/docs/handlers"><strong>Handlers</strong>How to write one, in Python, Node.js and Go</a></li>
<li><a href="/docs"><strong>API</strong>All operations, to read and try</a></li>
<li><a href="/openapi.json"><strong>OpenAPI document</strong>For clients and tools</a></li></ul>"""


def page(title: str, body: str, status: int = 200, **values: Any) -> Response:
    template = _FRAME.replace("{% block main %}{% endblock %}", body).replace("{{ script }}", values.pop("script", ""))
    response = Response(render_template_string(template, title=title, **values), status, content_type=f"{HTML}; charset=utf-8")
    response.headers["Content-Security-Policy"] = CONTENT_POLICY
    return response


def home(req: ApiRequest) -> Response:
    return page("Serverless functions", _HOME, version=__version__)


def docs(req: ApiRequest) -> Response:
    script = '<script type="module" src="/static/docs.js"></script>'
    body = '<p><a href="/docs/handlers">How to write a handler</a></p>'
    body += '<div id="docs"><p>This page needs JavaScript. The document is at <a href="/openapi.json">/openapi.json</a>.</p></div>'
    return page("API", body, script=script)


def handlers(req: ApiRequest) -> Response:
    """The guide in the package, so that it describes this version."""
    guide = (assets.examples_dir() / "README.md").read_text(encoding="utf-8")
    body = html_of(guide.partition("\n")[2].strip())
    return page("Writing a handler", "<article>{{ guide }}</article>", guide=body)


def openapi(req: ApiRequest) -> Response:
    return Response(current_app.extensions["sless_openapi"], content_type=JSON)


def exposition(req: ApiRequest) -> Response:
    token = req.settings.metrics_token
    sent = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
    if token and not hmac.compare_digest(sent, token.encode()):
        raise SlessError(Code.UNAUTHORIZED, "/metrics requires Authorization: Bearer <SLESS_METRICS_TOKEN>")
    return Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


def _row(method: str, path: str, view: View, summary: str, reply: Reply) -> Operation:
    return Operation(
        id=path.strip("/").replace("/", "-").replace(".", "-") or "home",
        method=method,
        path=path,
        view=view,
        tag="server",
        summary=summary,
        replies={200: reply},
        open=True,
    )


def _listing(path: str, *parameters: Parameter) -> Operation:
    """Served by `console`."""
    return Operation(
        id="funcs" if path == "/funcs" else "funcsOfNamespace",
        method="GET",
        path=path,
        view=None,
        tag="server",
        summary="Functions, services and jobs of a namespace, as text; browsers get the console",
        replies={200: Reply(text="the list", content={TEXT: "", HTML: ""})},
        parameters=parameters,
    )


_NS = Parameter(name="ns", text="another namespace (operators only)")
_TOKEN = Parameter(name="token", text="the token, for clients that cannot send headers; it may end up in logs on the way")
_PAGE = Reply(text="a page", content={HTML: ""})
OPERATIONS = (
    _row("GET", "/", home, "Landing page", _PAGE),
    _row("GET", "/docs", docs, "This document, as a page", _PAGE),
    _row("GET", "/docs/handlers", handlers, "How to write a handler, as a page", _PAGE),
    _row("GET", "/openapi.json", openapi, "This document", Reply(text="OpenAPI 3.1", content={JSON: "Document"})),
    _row("GET", "/metrics", exposition, "Prometheus metrics", Reply(text="the metrics", content={TEXT: ""})),
    _listing("/funcs", _NS, _TOKEN),
    _listing("/funcs/{ns}"),
    Operation(
        id="funcsSource",
        method="GET",
        path="/funcs/{ns}/source/{name}",
        view=None,
        tag="server",
        summary="The newest code of a function or service as text (an older address)",
        replies={200: Reply(text="the files", content={TEXT: ""})},
    ),
    Operation(
        id="funcsSwitchTrigger",
        method="PATCH",
        path="/funcs/{ns}/triggers/{name}",
        view=None,
        tag="server",
        summary='Switches a trigger with {"enabled": true} or false (an older address)',
        bodies={JSON: ("HttpTriggerMerge", "CronTriggerMerge", "EventTriggerMerge")},
        replies={200: shown("Trigger", "the trigger")},
    ),
)
