"""Configuration and prior state → planned state. Pure except for `Resource.complete`, which reads the code.

Terraform stores private data with a resource's state and returns it with each request: the values that the server chose for attributes
missing from the configuration. Without them, a plan could not tell such a value, which stays, from one that was removed from the
configuration or changed elsewhere, which has to return to the server's choice.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from tf.types import Unknown

from sless.terraform.fields import Field, Role, Values
from sless.terraform.write_only import HASH, planned_hash, secrets_of

TIMEOUTS = "timeouts"
_CHOSEN = "chosen"


class Plannable(Protocol):
    fields: tuple[Field, ...]

    @property
    def hides_write_only(self) -> bool:
        """Whether plans and states omit write-only values."""

    def complete(self, planned: Values, config: Values, prior: Values | None) -> None:
        """Fills in what depends on several attributes or on files. Raises Failure."""

    def needs_replacement(self, field: Field, prior: Values, planned: Values) -> bool: ...

    def renews(self, field: Field, prior: Values, planned: Values) -> bool:
        """Whether the update gives a status a new value."""


@dataclass(frozen=True)
class Plan:
    """`replaces` names the attributes whose change needs a new resource."""

    state: Values
    replaces: tuple[str, ...]


def plan_change(resource: Plannable, prior: Values | None, config: Values, chosen: Values | None = None) -> Plan:
    """`chosen`: values that the server chose when the configuration had none (`private`)."""
    inputs = [field for field in resource.fields if field.is_input]
    planned: Values = {}
    for field in inputs:
        if field.role is Role.ASSIGNED:
            planned[field.name] = _assigned(field, planned, prior, config, chosen)
        elif field.write_only and resource.hides_write_only:
            planned[field.name] = None
        else:
            planned[field.name] = _planned(field, planned, prior, config)
    resource.complete(planned, config, prior)
    planned[HASH] = planned_hash((prior or {}).get(HASH), secrets_of(inputs, config))
    changed = {name for name, value in planned.items() if prior is None or value != prior.get(name)}
    replaces = tuple(
        field.name for field in inputs if prior and field.name in changed and resource.needs_replacement(field, prior, planned)
    )
    touches_server = HASH in changed or any(field.name in changed and not field.local for field in inputs)
    for field in resource.fields:
        if not field.is_input and field.name != HASH:
            renewed = prior is None or bool(replaces) or (touches_server and resource.renews(field, prior, planned))
            planned[field.name] = Unknown if renewed or prior is None else prior.get(field.name)
    return Plan({**{field.name: planned[field.name] for field in resource.fields}, **_timeouts_of(config)}, replaces)


def _assigned(field: Field, planned: Values, prior: Values | None, config: Values, chosen: Values | None) -> Any:
    """Unknown if the server has to choose again."""
    value = config.get(field.name)
    if value is not None or prior is None:
        return Unknown if value is None else value
    before = prior.get(field.name)
    is_chosen = chosen is None or (field.name in chosen and chosen[field.name] == before)
    return before if is_chosen and all(planned[name] == prior.get(name) for name in field.follows) else Unknown


def _planned(field: Field, planned: Values, prior: Values | None, config: Values) -> Any:
    """The prior value if it means the same: Terraform accepts it and shows no difference."""
    value = config.get(field.name)
    if value is None and field.role is Role.DEFAULTED:
        value = field.default_of(planned)
    before = prior.get(field.name) if prior else None
    if before is not None and value is not None and field.equal(before, value, planned):
        return before
    return value


def _timeouts_of(config: Values) -> Values:
    return {TIMEOUTS: config[TIMEOUTS]} if TIMEOUTS in config else {}


def conform(fields: tuple[Field, ...], state: Values, *, timeouts: bool) -> Values:
    """Limits a state to the schema's attributes; missing ones become null."""
    names = [field.name for field in fields] + [TIMEOUTS] * timeouts
    return {name: state.get(name) for name in names}


def known(state: Values) -> Values:
    """Replaces unknown values with null, because a saved state must not contain any."""
    return {name: None if value is Unknown else value for name, value in state.items()}


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
