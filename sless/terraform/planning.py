"""Configuration and prior state → planned state. Pure except for `Resource.complete`, which reads the code."""

from dataclasses import dataclass
from typing import Any, Protocol

from tf.types import Unknown

from sless.terraform.fields import Field, Role, Values

TIMEOUTS = "timeouts"


class Plannable(Protocol):
    fields: tuple[Field, ...]

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


def plan_change(resource: Plannable, prior: Values | None, config: Values) -> Plan:
    inputs = [field for field in resource.fields if field.is_input]
    planned: Values = {}
    for field in inputs:
        planned[field.name] = _planned(field, planned, prior, config)
    resource.complete(planned, config, prior)
    changed = {field.name for field in inputs if prior is None or planned[field.name] != prior.get(field.name)}
    replaces = tuple(
        field.name for field in inputs if prior and field.name in changed and resource.needs_replacement(field, prior, planned)
    )
    touches_server = any(field.name in changed and not field.local for field in inputs)
    for field in resource.fields:
        if not field.is_input:
            renewed = prior is None or bool(replaces) or (touches_server and resource.renews(field, prior, planned))
            planned[field.name] = Unknown if renewed or prior is None else prior.get(field.name)
    return Plan({**{field.name: planned[field.name] for field in resource.fields}, **_timeouts_of(config)}, replaces)


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
    """Replaces unknown values by null: a saved state must not contain any."""
    return {name: None if value is Unknown else value for name, value in state.items()}
