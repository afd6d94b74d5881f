"""Write-only attributes: secrets that the server never returns, and that Terraform 1.11 and later do not store.

Terraform passes them with each configuration, but they are null in plans and states. The attribute `write_only_hash` is a salted hash of
all of them, so that a change appears as a difference. Earlier versions of Terraform ignore the field in the schema and expect the values in
plan and state, where they get them, with the same hash.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable
from typing import Any

from tf.types import Unknown

from sless.terraform.fields import Field, Role, Values

HASH = "write_only_hash"
FIRST_VERSION = (1, 11)
"""First versions of Terraform and OpenTofu that support them."""
_COST = {"n": 2**12, "r": 8, "p": 1}
"""Takes about 10 ms and 4 MB per guess, because many people may read a state, and a password may be short."""


def hash_field(*names: str) -> Field:
    shown = " and ".join(f"`{name}`" for name in names)
    return Field(name=HASH, text=f"Salted hash of {shown}; it differs when a value has changed.", role=Role.STATUS, local=True, stable=True)


def hides_write_only(terraform_version: str) -> bool:
    """Whether this version of Terraform does not store write-only attributes."""
    found = re.match(r"(\d+)\.(\d+)", terraform_version)
    return found is not None and (int(found[1]), int(found[2])) >= FIRST_VERSION


def secrets_of(fields: Iterable[Field], values: Values) -> Values:
    """The write-only values, without empty ones: null, "" and {}."""
    found = {item.name: _filled(values.get(item.name)) for item in fields if item.write_only}
    return {name: value for name, value in found.items() if value not in (None, "", {})}


def without_secrets(fields: Iterable[Field], values: Values) -> Values:
    return values | {item.name: None for item in fields if item.write_only}


def planned_hash(before: str | None, secret: Values) -> Any:
    """The hash after an update: the prior one if it still fits, Unknown if it changes."""
    if not secret:
        return None
    is_known = not any(value is Unknown or (isinstance(value, dict) and Unknown in value.values()) for value in secret.values())
    return before if is_known and before and _fits(before, secret) else Unknown


def hash_of(secret: Values) -> str | None:
    return _hashed(secrets.token_bytes(16), secret) if secret else None


def _fits(text: str, secret: Values) -> bool:
    salt, _, _ = text.partition("$")
    try:
        return hmac.compare_digest(text, _hashed(bytes.fromhex(salt), secret))
    except ValueError:
        return False


def _hashed(salt: bytes, secret: Values) -> str:
    text = json.dumps(secret, sort_keys=True).encode()
    return f"{salt.hex()}${hashlib.scrypt(text, salt=salt, **_COST).hex()}"


def _filled(value: Any) -> Any:
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value
