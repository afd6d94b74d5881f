"""JSON and secret values as text columns: the only place to change to encrypt secrets at rest.

A text with secrets starts with a tag for its scheme; `plain:` is JSON without encryption. Another scheme gets its own tag, so that rows of
both can coexist while they are rewritten.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from sless.domain.model import WorkloadSpec

_PLAIN = "plain:"
_SECRET_FIELDS = ("env_vars", "build_env", "secret_env")
_SPEC_FIELDS = frozenset(item.name for item in fields(WorkloadSpec))


def encode(value: object) -> str:
    """JSON in ASCII: NUL and lone surrogates are escaped, which both databases keep."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def decode(text: str) -> Any:
    return json.loads(text)


def encode_secrets(values: Mapping[str, Any]) -> str:
    return _PLAIN + encode(dict(values))


def decode_secrets(text: str) -> dict[str, Any]:
    """Raises ValueError for a scheme this version does not know."""
    if not text.startswith(_PLAIN):
        raise ValueError(f"unknown scheme of a secrets value: {text.split(':', 1)[0]!r}")
    values: dict[str, Any] = json.loads(text[len(_PLAIN) :])
    return values


def encode_spec(spec: WorkloadSpec) -> dict[str, str]:
    """Columns `spec` and `secrets` of a workload."""
    values = asdict(spec)
    secrets = {name: values.pop(name) for name in _SECRET_FIELDS}
    return {"spec": encode(values), "secrets": encode_secrets(secrets)}


def decode_spec(spec: str, secrets: str) -> WorkloadSpec:
    """Fields that an older version did not know get their defaults."""
    values = {**decode(spec), **decode_secrets(secrets)}
    values["set_fields"] = tuple(values.get("set_fields", ()))
    return WorkloadSpec(**{name: value for name, value in values.items() if name in _SPEC_FIELDS})
