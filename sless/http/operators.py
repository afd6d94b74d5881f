"""Operations for operators only: `/v1/operator/…`. `app` refuses other callers before it reads anything else of the request."""

from typing import Any

from flask import Response

from sless.http.api_request import ApiRequest
from sless.http.operation import JSON, Operation, shown
from sless.http.serialize import json_response
from sless.usecases.tenants import LimitsView

PREFIX = "/v1/operator/"
_LIMITS = PREFIX + "tenants/{ns}/limits"


def get_limits(req: ApiRequest) -> Response:
    return json_response(_limits_json(req.usecases.tenants.limits(req.namespace)))


def set_limits(req: ApiRequest) -> Response:
    return json_response(_limits_json(req.usecases.tenants.set_limits(req.namespace, req.json())))


def _limits_json(view: LimitsView) -> dict[str, Any]:
    return {"namespace": view.namespace} | view.own | {"limits": view.limits}


OPERATIONS = (
    Operation(
        id="getTenantLimits",
        method="GET",
        path=_LIMITS,
        view=get_limits,
        tag="operators",
        summary="Limits of a tenant: those set for it, and all that are in effect",
        replies={200: shown("TenantLimitsShown", "the limits")},
    ),
    Operation(
        id="setTenantLimits",
        method="PUT",
        path=_LIMITS,
        view=set_limits,
        tag="operators",
        summary="Replaces the limits of a tenant; missing or null ones return to their defaults",
        bodies={JSON: ("TenantLimits",)},
        replies={200: shown("TenantLimitsShown", "the limits")},
    ),
)
