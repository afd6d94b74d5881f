"""Tenants, suspension and revoked tokens, for operators."""

from functools import partial

from flask import Response, current_app

from sless.clock import rfc3339_of
from sless.domain.code_check import AllowedCode
from sless.domain.model import Kind, Workload
from sless.domain.operators import RevokedToken, TenantReport, sub_hash_of
from sless.errors import NotFound
from sless.http.api_request import ApiRequest
from sless.http.operation import CURSOR, FLAG, JSON, LIMIT, Operation, Parameter, Reply, shown
from sless.http.operators import PREFIX
from sless.http.paging import id_cursor, namespace_cursor, paged, place_cursor, place_text
from sless.http.serialize import Json, job_json, json_response
from sless.usecases.tenants import USAGE_DAYS

_TENANTS = PREFIX + "tenants"
_TENANT = _TENANTS + "/{ns}"
_TOKENS = PREFIX + "revoked-tokens"
_DEFAULT_PAGE = 100


def list_tenants(req: ApiRequest) -> Response:
    after, flag = namespace_cursor(req), req.query("suspended")
    suspended = None if flag is None else flag in ("1", "true")
    return paged(
        req,
        lambda limit: req.usecases.operators.list(limit=limit, after=after, suspended=suspended),
        lambda report: report.tenant.namespace,
        lambda report: _tenant_json(req, report),
        default=_DEFAULT_PAGE,
    )


def get_tenant(req: ApiRequest) -> Response:
    return json_response(_tenant_json(req, req.usecases.operators.get(req.namespace)))


def suspend(req: ApiRequest) -> Response:
    return json_response(_tenant_json(req, req.usecases.operators.suspend(req.namespace, req.json(required=False) or {})))


def resume(req: ApiRequest) -> Response:
    return json_response(_tenant_json(req, req.usecases.operators.resume(req.namespace)))


def suspend_workload(req: ApiRequest) -> Response:
    body = req.json(required=False) or {}
    return json_response(_workload_json(req.usecases.operators.suspend_workload(req.namespace, _kind_of(req), req.name, body)))


def resume_workload(req: ApiRequest) -> Response:
    return json_response(_workload_json(req.usecases.operators.resume_workload(req.namespace, _kind_of(req), req.name)))


def list_revoked(req: ApiRequest) -> Response:
    after, find = place_cursor(req), req.usecases.revocations.list
    return paged(req, lambda limit: find(limit, after), lambda item: place_text(item.place), _revoked_json)


def revoke(req: ApiRequest) -> Response:
    read_claims = current_app.extensions["sless_verifier"].claims
    return json_response(_revoked_json(req.usecases.revocations.revoke(req.json(), read_claims)))


def import_run(req: ApiRequest) -> Response:
    return json_response(job_json(req.usecases.jobs.import_run(req.namespace, req.name, req.json()), req.settings))


def list_allowed(req: ApiRequest) -> Response:
    after, find = id_cursor(req), req.usecases.operators.list_allowed
    return paged(req, lambda limit: find(limit, after), lambda item: item.sha256, _allowed_json)


def allow(req: ApiRequest) -> Response:
    found = req.usecases.operators.allow(str(req.args["sha256"]), req.json(required=False) or {})
    return json_response(_allowed_json(found))


def disallow(req: ApiRequest) -> Response:
    req.usecases.operators.disallow(str(req.args["sha256"]))
    return Response(status=204)


def _kind_of(req: ApiRequest) -> Kind:
    kinds = {f"{kind}s": kind for kind in Kind}
    kind = kinds.get(str(req.args["kind"]))
    if kind is None:
        raise NotFound("kind of resource", str(req.args["kind"])[:40])
    return kind


def _tenant_json(req: ApiRequest, report: TenantReport) -> Json:
    tenant = report.tenant
    at = rfc3339_of(tenant.suspended_at) if tenant.suspended_at else None
    return {
        "namespace": tenant.namespace,
        "sub_sha256": sub_hash_of(tenant.sub) if tenant.sub else "",
        "created_at": rfc3339_of(tenant.created_at),
        "counts": report.counts,
        "limits": req.usecases.tenants.limits_in_effect(tenant),
        "usage": {
            "days": USAGE_DAYS, "invocations": report.invocations, "errors": report.errors, "gb_seconds": round(report.gb_seconds, 3),
        },
        "suspended": None if tenant.suspended is None else {"reason": tenant.suspended, "at": at},
    }  # fmt: skip


def _workload_json(workload: Workload) -> Json:
    return {"namespace": workload.namespace, "kind": str(workload.kind), "name": workload.name, "suspended": workload.suspended}


def _revoked_json(item: RevokedToken) -> Json:
    return {
        "jti": item.token_id,
        "sub": item.sub,
        "reason": item.reason,
        "revoked_at": rfc3339_of(item.revoked_at),
        "expires_at": rfc3339_of(item.expires_at),
    }


def _allowed_json(item: AllowedCode) -> Json:
    return {"sha256": item.sha256, "reason": item.reason}


_operation = partial(Operation, tag="operators")
_ALLOWED = PREFIX + "allowed-code"
_WORKLOAD = _TENANT + "/{kind}/{name}"
_SUSPENDED = Parameter(name="suspended", text="only tenants that are suspended, or are not", schema=FLAG)
OPERATIONS = (
    _operation(
        id="listTenants", method="GET", path=_TENANTS, view=list_tenants,
        summary="All tenants, by namespace: counts, limits, usage of the last 31 days",
        parameters=(_SUSPENDED, LIMIT, CURSOR), replies={200: shown("Tenants", "the tenants", "Link")},
    ),
    _operation(
        id="getTenant", method="GET", path=_TENANT,
        view=get_tenant, summary="One tenant", replies={200: shown("Tenant", "the tenant")},
    ),
    _operation(
        id="suspendTenant", method="POST", path=_TENANT + "/suspend", view=suspend, bodies={JSON: ("Suspend",)}, body_required=False,
        summary="Suspends a tenant: calls get a 503, instances and runs stop, triggers do not fire, and writes get a 403 with the reason",
        replies={200: shown("Tenant", "the tenant")},
    ),
    _operation(
        id="resumeTenant", method="POST", path=_TENANT + "/resume", view=resume, summary="Ends the suspension",
        replies={200: shown("Tenant", "the tenant")},
    ),
    _operation(
        id="suspendWorkload", method="POST", path=_WORKLOAD + "/suspend", view=suspend_workload, bodies={JSON: ("Suspend",)},
        body_required=False,
        summary="Suspends one function, service or job", replies={200: shown("SuspendedWorkload", "the workload")},
    ),
    _operation(
        id="resumeWorkload", method="POST", path=_WORKLOAD + "/resume", view=resume_workload,
        summary="Ends the suspension, unless the tenant itself is suspended", replies={200: shown("SuspendedWorkload", "the workload")},
    ),
    _operation(
        id="listRevokedTokens", method="GET", path=_TOKENS, view=list_revoked, summary="Revoked tokens that have not expired, newest first",
        parameters=(LIMIT, CURSOR), replies={200: shown("RevokedTokens", "the tokens", "Link")},
    ),
    _operation(
        id="revokeToken", method="POST", path=_TOKENS, view=revoke, bodies={JSON: ("TokenRevocation",)},
        summary="Revokes a token by its jti; in effect on all replicas within a second", replies={200: shown("RevokedToken", "the token")},
    ),
    _operation(
        id="importRun", method="POST", path=_TENANT + "/jobs/{name}/imported-run", view=import_run, bodies={JSON: ("ImportedRun",)},
        summary="Sets a job's run_id for a run that took place elsewhere, without running it", replies={200: shown("Job", "the job")},
    ),
    _operation(
        id="listAllowedCode", method="GET", path=_ALLOWED, view=list_allowed,
        summary="Code that operators have allowed regardless of the checks",
        parameters=(LIMIT, CURSOR), replies={200: shown("AllowedCodes", "the content hashes", "Link")},
    ),
    _operation(
        id="allowCode", method="PUT", path=_ALLOWED + "/{sha256}", view=allow, bodies={JSON: ("AllowCode",)}, body_required=False,
        summary="Allows code by its content hash, which is in the refusal and the log",
        replies={200: shown("AllowedCode", "the content hash")},
    ),
    _operation(
        id="disallowCode", method="DELETE", path=_ALLOWED + "/{sha256}", view=disallow, summary="No longer allows this code",
        replies={204: Reply(text="it is checked again")},
    ),
)  # fmt: skip
