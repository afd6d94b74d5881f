"""The caller, the runtimes, and namespaces."""

from typing import Any

from flask import Response

from sless.clock import rfc3339_of
from sless.domain.function_urls import function_urls_of
from sless.domain.model import Tenant
from sless.domain.runtimes import RUNTIMES
from sless.http.api_request import ApiRequest
from sless.http.operation import CURSOR, JSON, LIMIT, Operation, Parameter, Reply, reading, shown
from sless.http.paging import namespace_cursor, paged
from sless.http.serialize import json_response, runtime_json

_NS = "/v1/namespaces/{ns}"


def whoami(req: ApiRequest) -> Response:
    caller = req.caller
    return json_response(
        {
            "sub": caller.sub, "namespace": caller.namespace, "operator": caller.operator, "auth_mode": req.settings.auth_mode,
            "function_url": function_urls_of(req.settings).template,
        }
    )  # fmt: skip


def runtimes(req: ApiRequest) -> Response:
    return json_response([runtime_json(runtime) for runtime in RUNTIMES.values()])


def list_all(req: ApiRequest) -> Response:
    after = namespace_cursor(req)
    return paged(
        req,
        lambda limit: req.usecases.tenants.list(req.caller, limit=limit, after=after),
        lambda tenant: tenant.namespace,
        lambda tenant: _tenant_json(req, tenant),
    )


def ensure(req: ApiRequest) -> Response:
    return json_response(_tenant_json(req, req.usecases.tenants.ensure(req.caller, req.namespace)))


def _tenant_json(req: ApiRequest, tenant: Tenant) -> dict[str, Any]:
    limits = req.usecases.tenants.limits_in_effect(tenant)
    return {"namespace": tenant.namespace, "limits": limits, "created_at": rfc3339_of(tenant.created_at)}


def delete(req: ApiRequest) -> Response:
    count = req.usecases.tenants.delete(req.namespace, req.query("confirm"))
    return json_response({"name": req.namespace, "phase": "Deleting", "message": f"{count} resources are being deleted"}, 202)


def usage(req: ApiRequest) -> Response:
    found = req.usecases.tenants.usage(req.namespace)
    days = [
        {
            "day": day.day, "invocations": day.invocations, "errors": day.errors, "gb_seconds": round(day.gb_seconds, 3),
            "instance_gb_seconds": round(day.instance_gb_seconds, 3),
        }
        for day in found.days
    ]  # fmt: skip
    return json_response({"namespace": req.namespace, "counts": found.counts, "limits": found.limits, "days": days})


OPERATIONS = (
    reading("whoami", "/v1/whoami", whoami, "namespaces", "The subject of the token and its namespace", shown("Whoami", "the caller")),
    reading(
        "runtimes", "/v1/runtimes", runtimes, "namespaces", "Runtimes, with their end of life", shown("Runtimes", "all runtimes")
    ),
    reading(
        "listNamespaces", "/v1/namespaces", list_all, "namespaces", "Namespaces of all tenants (operators only)",
        shown("Namespaces", "the namespaces, by name", "Link"), LIMIT, CURSOR,
    ),
    reading(
        "usage", _NS + "/usage", usage, "namespaces", "Counts, limits, and daily invocations and GB-seconds",
        shown("Usage", "the usage of the last 31 days"),
    ),
    Operation(
        id="ensureNamespace",
        method="POST",
        path=_NS + "/ensure",
        view=ensure,
        tag="namespaces",
        summary="Creates the namespace; idempotent",
        replies={200: shown("Namespace", "the namespace")},
    ),
    Operation(
        id="deleteNamespace",
        method="DELETE",
        path=_NS,
        view=delete,
        tag="namespaces",
        summary="Deletes everything in the namespace",
        parameters=(Parameter(name="confirm", text="must repeat the namespace", required=True),),
        replies={202: Reply(text="deletion has started", content={JSON: "Deleting"})},
    ),
)  # fmt: skip
