"""Errors of the Kubernetes API, worded for users."""

import json
import re
from typing import Any

_QUOTA = re.compile(r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>.+), used: (?P<used>.+), limited: (?P<limited>.+)$", re.S)
_FORBIDDEN = re.compile(r'^\S+ "[^"]*" is forbidden: (?P<reason>.+)$', re.S)

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|[MGT]|[KMGT]i|)$")
_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


class KubeError(Exception):
    """Base class. `status` is the HTTP status (0: no answer), `reason` the API's CamelCase reason, `message` a sentence."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


class Conflict(KubeError):
    """409: a concurrent change, often of the quota's count. Nothing was done; a retry may succeed."""


class Exists(Conflict):
    """409: an object of this name already exists."""


class Refused(KubeError):
    """403 or 422: the cluster rejects the object or the caller: quota, policy, invalid field, missing right."""


class Unavailable(KubeError):
    """No answer, a 5xx, a 429, or rejected credentials, so the state of the cluster is unknown."""


def error_of(status: int, body: bytes) -> KubeError:
    """The error for an answer with this status and body (a `Status` object if the API server sent it)."""
    parsed = _status_of(body)
    reason = str(parsed.get("reason") or "")
    message = plain(str(parsed.get("message") or body[:300].decode(errors="replace").strip() or f"the API answered {status}"))
    if status == 409:
        return (Exists if reason == "AlreadyExists" else Conflict)(status, reason, message)
    if status in (403, 422):
        return Refused(status, reason, message)
    if status >= 500 or status in (401, 429):
        return Unavailable(status, reason, message)
    return KubeError(status, reason, message)


def is_quota_used_up(message: str) -> bool:
    """Whether a quota refuses something that would fit if other objects were gone."""
    if not (quota := _QUOTA.search(message)):
        return False
    asked, limited = _by_resource(quota["requested"]), _by_resource(quota["limited"])
    return all(_number_of(value) <= _number_of(limited.get(name, "")) for name, value in asked.items())


def plain(message: str) -> str:
    """The API's message for users: words quota refusals as requested, used and allowed, and drops `x "y" is forbidden:`."""
    if quota := _QUOTA.search(message):
        asked, used, limited = (_by_resource(quota[part]) for part in ("requested", "used", "limited"))
        parts = [f"{name}: {value} more asked, {used.get(name, '?')} of {limited.get(name, '?')} in use" for name, value in asked.items()]
        return f"the quota of the namespace is used up ({'; '.join(parts)})"
    if forbidden := _FORBIDDEN.match(message):
        return forbidden["reason"]
    return message


def _by_resource(text: str) -> dict[str, str]:
    """`limits.memory=128Mi,pods=1` → {"memory": "128Mi", "pods": "1"}."""
    pairs = (part.split("=", 1) for part in text.split(",") if "=" in part)
    return {name.strip().removeprefix("limits.").removeprefix("requests."): value.strip() for name, value in pairs}


def _number_of(quantity: str) -> float:
    """Parses `128Mi`, `500m` or `3`. Returns infinity for anything else, which limits nothing."""
    found = _QUANTITY.match(quantity)
    return float(found[1]) * _UNITS[found[2]] if found else float("inf")


def _status_of(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
