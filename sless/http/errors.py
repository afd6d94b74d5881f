"""Formats all errors as in contract §3, including those of the framework."""

import json
import logging

from flask import Response, g, request
from werkzeug.exceptions import HTTPException

from sless.errors import Code, SlessError

log = logging.getLogger(__name__)

_CODES = {
    400: Code.INVALID,
    401: Code.UNAUTHORIZED,
    403: Code.FORBIDDEN,
    404: Code.NOT_FOUND,
    405: Code.METHOD_NOT_ALLOWED,
    408: Code.REQUEST_TIMEOUT,
    412: Code.PRECONDITION_FAILED,
    413: Code.TOO_LARGE,
    414: Code.URI_TOO_LONG,
    415: Code.UNSUPPORTED_MEDIA,
    429: Code.TOO_MANY_REQUESTS,
    501: Code.NOT_IMPLEMENTED,
    503: Code.UNAVAILABLE,
}


def error_response(error: SlessError) -> Response:
    response = Response(json.dumps(error.body(g.request_id), ensure_ascii=False), error.status, content_type="application/json")
    if error.retry_after_sec is not None:
        response.headers["Retry-After"] = str(error.retry_after_sec)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = challenge_of(error)
    return response


def challenge_of(error: SlessError) -> str:
    """The value of WWW-Authenticate."""
    known = "" if error.code is Code.TOKEN_MISSING else ', error="invalid_token"'
    return f'Bearer realm="sless"{known}'


def on_sless_error(error: SlessError) -> Response:
    return error_response(error)


def on_http_error(error: HTTPException) -> Response:
    code = _CODES.get(error.code or 500, Code.INTERNAL if (error.code or 500) >= 500 else Code.INVALID)
    response = error_response(SlessError(code, _sentence_of(error, code)))
    if error.get_response().headers.get("Allow"):
        response.headers["Allow"] = error.get_response().headers["Allow"]
    return response


def on_failure(error: Exception) -> Response:
    log.error("%s %s failed (request %s)", request.method, request.path, g.request_id, exc_info=error)
    return error_response(SlessError(Code.INTERNAL, "internal error; see the server log for this request_id"))


def _sentence_of(error: HTTPException, code: Code) -> str:
    match code:
        case Code.NOT_FOUND:
            return f"no such path: {request.path[:200]}"
        case Code.METHOD_NOT_ALLOWED:
            allowed = error.get_response().headers.get("Allow", "")
            return f"method {request.method[:20]} not allowed; use {allowed}"
    return error.description or error.name
