"""`sless_trigger`."""

from typing import Any

from tf.types import Unknown
from tf.utils import Diagnostics

from sless.client.client import Json
from sless.client.deployment import find_workload
from sless.terraform import trigger_attributes as attributes
from sless.terraform.failure import Failure
from sless.terraform.fields import Field, Values
from sless.terraform.resource import Change, Resource

REFERENCES = ("function_ref", "function")


class Trigger(Resource):
    kind = "trigger"
    text = "What calls a function: HTTP, a schedule or the messages of a queue."
    fields = attributes.TRIGGER

    def validate(self, diagnostics: Diagnostics, type_name: str, config: Values) -> None:
        super().validate(diagnostics, type_name, config)
        kind = config.get("type")
        if kind is Unknown:
            return
        if kind not in attributes.TRIGGER_FIELDS:
            expected = ", ".join(attributes.TRIGGER_FIELDS)
            diagnostics.add_error("Invalid trigger type", f'Expected one of {expected}, found "{kind}".', path=["type"])
            return
        given = [name for name in REFERENCES if config.get(name) is not None]
        if not given:
            diagnostics.add_error("Missing function", "Expected function_ref: the function or service to call.", path=["function_ref"])
        self._check_fields(diagnostics, kind, config)

    def _check_fields(self, diagnostics: Diagnostics, kind: str, config: Values) -> None:
        """Accepts empty values of other types' attributes, because the former provider sent them."""
        own = attributes.TRIGGER_FIELDS[kind]
        for other, names in attributes.TRIGGER_FIELDS.items():
            for name in names:
                if name not in own and config.get(name) not in (None, "", 0, [], False):
                    diagnostics.add_error("Unexpected attribute", f"{name} belongs to triggers of type {other}, not {kind}.", path=[name])
        for name in attributes.TRIGGER_REQUIRED.get(kind, ()):
            if config.get(name) in (None, ""):
                diagnostics.add_error("Missing attribute", f"A trigger of type {kind} needs {name}.", path=[name])

    def complete(self, planned: Values, config: Values, prior: Values | None) -> None:
        complete_reference(planned, config)
        own = attributes.TRIGGER_FIELDS.get(planned["type"], ())
        for names in attributes.TRIGGER_FIELDS.values():
            for name in names:
                if planned["type"] is not Unknown and name not in own and config.get(name) is None:
                    planned[name] = None

    def renews(self, field: Field, prior: Values, planned: Values) -> bool:
        return super().renews(field, prior, planned) or (field.name == "api_key" and prior.get("auth") != planned["auth"])

    def sent_fields(self, planned: Values) -> list[Field]:
        own = {"name", "type", "function_ref", "enabled", *attributes.TRIGGER_FIELDS[planned["type"]]}
        return [item for item in super().sent_fields(planned) if item.name in own]

    def _value_of(self, item: Field, found: Json, prior: Values | None) -> Any:
        foreign = [name for names in attributes.TRIGGER_FIELDS.values() for name in names]
        if item.name in foreign and item.name not in attributes.TRIGGER_FIELDS[found["type"]]:
            return known_or_none(prior.get(item.name)) if prior else None
        if item.name == "api_key":
            # Returned only once, by the request that creates it.
            return found.get("api_key") or (known_or_none(prior.get("api_key")) if prior else None)
        return super()._value_of(item, found, prior)

    def create(self, change: Change) -> None:
        self.save(change, self.created(change))
        self._await_target(change, "create")

    def update(self, change: Change) -> None:
        spec = self.spec_of(change)
        name = change.prior["name"]
        api = self.api(change.client)
        self.save(change, change.waiter.outlast(lambda: api.merge(name, spec) if spec else api.get(name)))
        self._await_target(change, "update")

    def _await_target(self, change: Change, operation: str) -> None:
        """Waits until the target is Ready, because the URL is useless before. A missing or failed target is not an error of the trigger."""
        if change.planned["type"] != "http" or not change.planned["enabled"]:
            return
        name = change.planned["function_ref"]

        def settled() -> bool | None:
            _, target = find_workload(change.client, name)
            if target is None or not target.get("latest_version"):
                return True
            return True if target["phase"] in ("Ready", "Failed") else None

        timeout_sec = self.timeout_sec(change.planned, operation, "wait_timeout_sec")
        change.waiter.poll(settled, timeout_sec, lambda: f"{name} is not Ready")


def complete_reference(planned: Values, config: Values) -> None:
    """`function` is an alias of `function_ref`. Raises Failure if they differ."""
    given = [config[name] for name in REFERENCES if config.get(name) is not None]
    if len(given) == 2 and Unknown not in given and given[0] != given[1]:
        raise Failure("Conflicting attributes", f'function_ref is "{given[0]}", function is "{given[1]}".', ("function",))
    for name in REFERENCES:
        planned[name] = config[name] if config.get(name) is not None else next(iter(given), None)


def known_or_none(value: Any) -> Any:
    return None if value is Unknown else value
