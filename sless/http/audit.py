"""The audit trail: who changed what, when and from where."""

from flask import Response, request

from sless.clock import rfc3339_of
from sless.domain.audit import AuditEntry
from sless.http.api_request import ApiRequest
from sless.http.operation import CURSOR, LIMIT, SINCE, Parameter, reading, shown
from sless.http.operators import PREFIX
from sless.http.paging import number_cursor, paged
from sless.http.serialize import Json
from sless.usecases.follow import since_of

_PAGE = 100


def list_entries(req: ApiRequest) -> Response:
    return _answer(req, req.namespace)


def list_all(req: ApiRequest) -> Response:
    return _answer(req, None)


def _answer(req: ApiRequest, namespace: str | None) -> Response:
    before, since = number_cursor(req), since_of(request.args)
    return paged(
        req,
        lambda limit: req.usecases.tenants.audit(namespace, limit=limit, before_id=before, since=since, name=req.query("name")),
        lambda entry: entry.id,
        _entry_json,
        default=_PAGE,
    )


def _entry_json(entry: AuditEntry) -> Json:
    return {
        "id": entry.id,
        "time": rfc3339_of(entry.at),
        "namespace": entry.namespace,
        "sub": entry.sub,
        "address": entry.address,
        "request_id": entry.request_id,
        "action": entry.action,
        "kind": entry.kind,
        "name": entry.name,
        "changes": list(entry.changes),
    }


_FILTERS = (Parameter(name="name", text="only changes of this resource"), SINCE, LIMIT, CURSOR)
_REPLY = shown("AuditEntries", "the changes", "Link")
OPERATIONS = (
    reading(
        "listAudit", "/v1/namespaces/{ns}/audit", list_entries, "namespaces",
        "The audit trail, newest first: who changed what, when and from where", _REPLY, *_FILTERS,
    ),
    reading(
        "listAllAudit", PREFIX + "audit", list_all, "operators",
        "The audit trail of all tenants and of the installation itself (tokens, allowed code, restore, gc), newest first",
        _REPLY, *_FILTERS,
    ),
)  # fmt: skip
