"""Data that the provider stores with a resource's state, and gets back with each request: values that the server chose for attributes
missing from the configuration. Without them, a plan could not tell such a value, which stays, from one that was removed from the
configuration or changed elsewhere, which has to return to the server's choice."""

import json
from collections.abc import Iterable

from sless.terraform.fields import Field, Role, Values

_CHOSEN = "chosen"


def chosen_of(private: bytes) -> Values | None:
    """Attribute → value; None if they are unknown, as after an import, or if the former provider wrote `private`."""
    try:
        found = json.loads(private or b"{}")
    except ValueError:
        return None
    return found.get(_CHOSEN) if isinstance(found, dict) else None


def private_of(fields: Iterable[Field], config: Values, state: Values) -> bytes:
    chosen = {item.name: state[item.name] for item in fields if item.role is Role.ASSIGNED and config.get(item.name) is None}
    return json.dumps({_CHOSEN: chosen}).encode()
