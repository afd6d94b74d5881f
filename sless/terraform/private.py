"""What the provider keeps beside a resource's state, and Terraform hands back with each request: the values that the server chose for
attributes that the configuration leaves out. Without them a plan could not tell such a value, which stays, from one that was taken out of
the configuration or changed elsewhere, which has to go back to the server's choice."""

import json
from collections.abc import Iterable

from sless.terraform.fields import Field, Role, Values

_CHOSEN = "chosen"


def chosen_of(private: bytes) -> Values | None:
    """Attribute → value; None if nothing is known, as after an import or when the former provider wrote `private`."""
    try:
        found = json.loads(private or b"{}")
    except ValueError:
        return None
    return found.get(_CHOSEN) if isinstance(found, dict) else None


def private_of(fields: Iterable[Field], config: Values, state: Values) -> bytes:
    chosen = {item.name: state[item.name] for item in fields if item.role is Role.ASSIGNED and config.get(item.name) is None}
    return json.dumps({_CHOSEN: chosen}).encode()
