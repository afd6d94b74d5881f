"""The namespace's `notify_url`, which receives notices of failures."""

from flask import Response

from sless.http.api_request import ApiRequest
from sless.http.operation import JSON, Operation, shown
from sless.http.serialize import json_response

_PATH = "/v1/namespaces/{ns}/notifications"
_REPLIES = {200: shown("Notifications", "the address")}


def get(req: ApiRequest) -> Response:
    return _answer(req, req.usecases.notifications.find_url(req.namespace))


def put(req: ApiRequest) -> Response:
    return _answer(req, req.usecases.notifications.set_url(req.caller, req.namespace, req.json()))


def _answer(req: ApiRequest, url: str | None) -> Response:
    return json_response({"namespace": req.namespace, "notify_url": url})


OPERATIONS = (
    Operation(
        id="getNotifications",
        method="GET",
        path=_PATH,
        view=get,
        tag="namespaces",
        summary="The URL that receives notices of failures in this namespace",
        replies=_REPLIES,
    ),
    Operation(
        id="setNotifications",
        method="PUT",
        path=_PATH,
        view=put,
        tag="namespaces",
        summary="Reports failed builds and functions, dead letters and reached limits by a signed POST; null turns it off",
        bodies={JSON: ("NotificationsReplace",)},
        replies=_REPLIES,
    ),
)
