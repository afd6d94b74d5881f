"""Errors as meta/v1 Status."""

from typing import Any

REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict", 410: "Expired",
    415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class Refused(Exception):
    """An error response of the API server."""

    def __init__(self, code: int, message: str, *, reason: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.reason = reason or REASONS[code]
        self.details = details

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        }  # fmt: skip
        if self.details:
            body["details"] = self.details
        return body


def not_found(resource: str, name: str) -> Refused:
    return Refused(404, f'{resource} "{name}" not found', details={"name": name, "kind": resource.split(".")[0]})


def forbidden(resource: str, name: str, why: str) -> Refused:
    return Refused(403, f'{resource} "{name}" is forbidden: {why}', details={"name": name, "kind": resource.split(".")[0]})


def invalid(kind: str, name: str, causes: list[tuple[str, str]]) -> Refused:
    """`causes`: (field, message)."""
    text = ", ".join(f"{field}: {why}" for field, why in causes)
    listed = [{"reason": "FieldValueInvalid", "message": why, "field": field} for field, why in causes]
    return Refused(422, f'{kind} "{name}" is invalid: {text}', details={"name": name, "kind": kind, "causes": listed})
