"""Rows that `asgi` serves, for the document: calls and health."""

from sless.http.history import ACCEPTED
from sless.http.operation import JSON, Operation, Reply, shown

_FN = "/fn/{ns}/{name}"
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_REPLIES = {200: Reply(text="the handler's answer", content={"*/*": ""})}


def _call(method: str) -> Operation:
    body = method in ("POST", "PUT", "PATCH")
    return Operation(
        id=f"call{method.capitalize()}",
        method=method,
        path=_FN,
        view=None,
        tag="calls",
        summary="Calls a function or service; sub-path and query are passed on unchanged; `Prefer: respond-async` as for …/invoke",
        bodies={JSON: ("Event",)} if body else {},
        body_required=False,
        replies=_REPLIES | ({202: ACCEPTED} if method == "POST" else {}),
        open=True,
        any_status=True,
    )


def _health(path: str, summary: str) -> Operation:
    return Operation(
        id=path.strip("/"),
        method="GET",
        path=path,
        view=None,
        tag="server",
        summary=summary,
        replies={200: shown("Health", "healthy"), 503: shown("Health", "unhealthy")},
        open=True,
    )


OPERATIONS = (
    *map(_call, _METHODS),
    _health("/healthz", "Liveness"),
    _health("/health", "Same as /healthz"),
    _health("/readyz", "Readiness"),
)
