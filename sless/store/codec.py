"""JSON in text columns, and the split of a workload's spec: its secrets go to an encrypted column (`types.SecretText`)."""

import json
from dataclasses import asdict, fields
from typing import Any

from sless.domain.model import WorkloadSpec

_SECRET_FIELDS = ("env_vars", "build_env", "secret_env")
_SPEC_FIELDS = frozenset(item.name for item in fields(WorkloadSpec))


def encode(value: object) -> str:
    """JSON in ASCII: NUL and lone surrogates are escaped, which both databases keep."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def decode(text: str) -> Any:
    return json.loads(text)


def encode_spec(spec: WorkloadSpec) -> dict[str, str]:
    """Columns `spec` and `secrets` of a workload."""
    values = asdict(spec)
    secrets = {name: values.pop(name) for name in _SECRET_FIELDS}
    return {"spec": encode(values), "secrets": encode(secrets)}


def decode_spec(spec: str, secrets: str) -> WorkloadSpec:
    """Fields missing from a row that an older version wrote get their defaults."""
    values = {**decode(spec), **decode(secrets)}
    values["set_fields"] = tuple(values.get("set_fields", ()))
    return WorkloadSpec(**{name: value for name, value in values.items() if name in _SPEC_FIELDS})
