"""A single invocation: get (with attempts and callback), cancel, retry. Also the key for signing callbacks."""

from functools import partial
from typing import Any

from flask import Response

from sless.clock import rfc3339_of
from sless.domain.callback import Callback, CallbackStatus
from sless.domain.model import CallStatus, Kind
from sless.domain.runs import Attempt
from sless.errors import NotFound
from sless.http.api_request import ApiRequest
from sless.http.operation import Operation, Reply, shown
from sless.http.serialize import invocation_json, json_response, line_json
from sless.ids import valid_request_id
from sless.usecases.invocations import CallbackKeyView, InvocationView

_KEY_PATH = "/v1/namespaces/{ns}/callback-key"


def get(kind: Kind, req: ApiRequest) -> Response:
    return json_response(_view_json(req.usecases.invocations.get(req.namespace, kind, req.name, _wanted(req))))


def get_in(req: ApiRequest) -> Response:
    return json_response(_view_json(req.usecases.invocations.get_in(req.namespace, _wanted(req))))


def cancel(kind: Kind, req: ApiRequest) -> Response:
    return json_response(_view_json(req.usecases.invocations.cancel(req.namespace, kind, req.name, _wanted(req))), 202)


def retry(kind: Kind, req: ApiRequest) -> Response:
    run = req.usecases.invocations.retry(req.namespace, kind, req.name, _wanted(req))
    response = json_response({"id": run.id, "request_id": run.request_id, "status": str(run.status)}, 202)
    response.headers["Location"] = f"/v1/namespaces/{req.namespace}/{run.kind}s/{run.name}/invocations/{run.id}"
    return response


def callback_key(req: ApiRequest) -> Response:
    return _key_response(req.usecases.invocations.callback_key(req.caller, req.namespace))


def rotate_callback_key(req: ApiRequest) -> Response:
    return _key_response(req.usecases.invocations.rotate_callback_key(req.caller, req.namespace))


def _wanted(req: ApiRequest) -> str:
    wanted = str(req.args["id"])
    if not valid_request_id(wanted):
        raise NotFound("invocation", wanted[:80])
    return wanted


def _view_json(view: InvocationView) -> dict[str, Any]:
    run = view.run
    return invocation_json(view.call) | {
        "result": view.call.result,
        "max_attempts": run.max_attempts if run else None,
        "next_attempt_at": rfc3339_of(run.not_before) if run and run.status is CallStatus.QUEUED else None,
        "attempts_detail": [_attempt_json(item) for item in view.attempts],
        "callback": _callback_json(run.callback_url, view.callback) if run and run.callback_url else None,
        "logs": [line_json(line) for line in view.lines],
    }


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "version": attempt.version,
        "status": str(attempt.status),
        "http_status": attempt.http_status,
        "error": attempt.error,
        "started_at": rfc3339_of(attempt.started_at),
        "finished_at": rfc3339_of(attempt.finished_at) if attempt.finished_at else None,
    }


def _callback_json(url: str, callback: Callback | None) -> dict[str, Any]:
    """The status is waiting until the call has ended."""
    pending = callback is not None and callback.status is CallbackStatus.PENDING
    return {
        "url": url,
        "status": str(callback.status) if callback else "waiting",
        "attempts": callback.attempts if callback else 0,
        "http_status": callback.http_status if callback else None,
        "error": callback.error if callback else None,
        "next_attempt_at": rfc3339_of(callback.not_before) if callback and pending else None,
        "finished_at": rfc3339_of(callback.ended_at) if callback and callback.ended_at else None,
    }


def _key_response(view: CallbackKeyView) -> Response:
    return json_response(
        {
            "key": view.key.secret,
            "created_at": rfc3339_of(view.key.created_at),
            "previous_until": rfc3339_of(view.previous_until) if view.previous_until else None,
        }
    )


def operations(kind: Kind) -> tuple[Operation, ...]:
    title = kind.capitalize()
    path = f"/v1/namespaces/{{ns}}/{kind}s/{{name}}/invocations/{{id}}"
    return (
        Operation(
            id=f"invocation{title}",
            method="GET",
            path=path,
            view=partial(get, kind),
            tag=f"{kind}s",
            summary="One call, with attempts, callback and log lines",
            replies={200: shown("InvocationWithLogs", "the call")},
        ),
        Operation(
            id=f"cancelInvocation{title}",
            method="DELETE",
            path=path,
            view=partial(cancel, kind),
            tag=f"{kind}s",
            summary="Cancels an asynchronous call, whether queued or running; 409 if it has ended",
            replies={202: shown("InvocationWithLogs", "the call")},
        ),
        Operation(
            id=f"retryInvocation{title}",
            method="POST",
            path=path + "/retry",
            view=partial(retry, kind),
            tag=f"{kind}s",
            summary="Retries an asynchronous call that is dead, failed or cancelled; attempts keep counting",
            replies={202: shown("Fired", "accepted", "Location")},
        ),
    )


_KEY = {200: Reply(text="the key", content={"application/json": "CallbackKey"})}
OPERATIONS = (
    Operation(
        id="invocation",
        method="GET",
        path="/v1/namespaces/{ns}/invocations/{id}",
        view=get_in,
        tag="namespaces",
        summary="One call of any function, service or job of the namespace, even a deleted one as long as history is kept",
        replies={200: shown("InvocationWithLogs", "the call")},
    ),
    Operation(
        id="callbackKey",
        method="GET",
        path=_KEY_PATH,
        view=callback_key,
        tag="namespaces",
        summary="The key for signing callbacks; created on first use",
        replies=_KEY,
    ),
    Operation(
        id="rotateCallbackKey",
        method="POST",
        path=_KEY_PATH + "/rotate",
        view=rotate_callback_key,
        tag="namespaces",
        summary="Creates a new key; for 24 hours callbacks are also signed with the previous one",
        replies=_KEY,
    ),
)
