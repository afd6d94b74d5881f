"""Accounts of image registries in Secrets. Pure."""

import base64
import json
from typing import Any

Json = dict[str, Any]


def accounts_of(secret: Json | None) -> set[tuple[str, str]]:
    """(registry, user) of each entry of a dockerconfigjson; skips malformed ones."""
    try:
        config = json.loads(base64.b64decode(((secret or {}).get("data") or {})[".dockerconfigjson"]))
        return {(str(host).rstrip("/"), user) for host, entry in config["auths"].items() if (user := _user_of(entry))}
    except (KeyError, TypeError, ValueError, AttributeError):
        return set()


def _user_of(entry: Json) -> str:
    return str(entry.get("username") or base64.b64decode(entry.get("auth") or "").decode().partition(":")[0])
