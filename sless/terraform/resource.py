"""The base of functions, services, triggers and jobs: state from the server's JSON, requests from a plan, import, destroy."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tf.schema import Schema
from tf.types import Unknown
from tf.utils import Diagnostics

from sless.client import Client, ClientError
from sless.client.client import Json, Resources
from sless.terraform.connection import Connection
from sless.terraform.failure import Failure
from sless.terraform.fields import Field, Role, TimeoutsBlock, Values, by_name
from sless.terraform.planning import TIMEOUTS, conform, known
from sless.terraform.waiting import Waiter, is_outage, seconds_of
from sless.terraform.write_only import HASH, hash_of, secrets_of, without_secrets

DEFAULT_TIMEOUT_SEC = 300
LOST_ANSWER = (
    "The answer to the first request was lost: {}. It may have created this resource; if so, bring it into the state with\n\n"
    "    terraform import ADDRESS {}"
)
SCHEMA_VERSION = 1
"""Version of the state; 0 is that of the former provider."""


@dataclass
class Change:
    """One create, update or delete. `saved` becomes the state if a later step fails."""

    client: Client
    waiter: Waiter
    config: Values = field(default_factory=dict)
    planned: Values = field(default_factory=dict)
    prior: Values = field(default_factory=dict)
    saved: Values | None = None


class Resource:
    """A kind of resource. One instance serves all calls, from several threads."""

    kind: str
    text: str
    fields: tuple[Field, ...]

    def __init__(self, connection: Connection, stop: threading.Event) -> None:
        self.connection = connection
        self.waiter = Waiter(stop)

    # ---- interface of the library's servicer

    def get_name(self) -> str:
        return self.kind

    def get_schema(self) -> Schema:
        attributes = [item.attribute() for item in self.fields]
        return Schema(attributes=attributes, block_types=[TimeoutsBlock()], version=SCHEMA_VERSION, description=self.text)

    def validate(self, diagnostics: Diagnostics, type_name: str, config: Values) -> None:
        """Adds errors that need no request to the server."""
        for name, text in (config.get(TIMEOUTS) or {}).items():
            if isinstance(text, str) and seconds_of(text) is None:
                diagnostics.add_error(
                    "Invalid duration", f'Expected a duration such as "90s" or "10m", found "{text}".', path=[TIMEOUTS, name]
                )

    # ---- planning

    def complete(self, planned: Values, config: Values, prior: Values | None) -> None:
        return None

    def needs_replacement(self, field: Field, prior: Values, planned: Values) -> bool:
        return field.replaces

    def renews(self, field: Field, prior: Values, planned: Values) -> bool:
        return not field.stable

    @property
    def hides_write_only(self) -> bool:
        return self.connection.hides_write_only

    def upgrade(self, version: int, state: Values) -> Values:
        """Converts the state of an older provider, which has fewer attributes, some of them obsolete; the following read fills in the rest.
        The state of an older Terraform contains secrets."""
        upgraded = conform(self.fields, state, timeouts=True)
        upgraded[TIMEOUTS] = state.get(TIMEOUTS) if isinstance(state.get(TIMEOUTS), dict) else None
        upgraded[HASH] = upgraded[HASH] or hash_of(secrets_of(self.fields, upgraded))
        return without_secrets(self.fields, upgraded) if self.hides_write_only else upgraded

    # ---- operations

    def create(self, change: Change) -> None:
        raise NotImplementedError

    def update(self, change: Change) -> None:
        raise NotImplementedError

    def delete(self, change: Change) -> None:
        name = change.prior["name"]
        api = self.api(change.client)
        try:
            change.waiter.outlast(lambda: api.delete(name))
        except ClientError as error:
            if error.status == 404:
                return
            raise
        timeout_sec = self.timeout_sec(change.prior, "delete", "wait_timeout_sec")
        change.waiter.poll(
            lambda: True if self.find(change.client, name) is None else None, timeout_sec, lambda: f"{name} is still Deleting"
        )

    def read(self, prior: Values) -> Values | None:
        client = self.connection.client()
        found = self.find(client, prior["name"])
        return None if found is None else self.state_of(found, prior)

    def import_(self, identifier: str) -> Values:
        client = self.connection.client()
        namespace, _, name = identifier.rpartition("/")
        if namespace and namespace != client.namespace:
            raise Failure(f"Cannot import {self.kind}", f'Expected a name, or one in "{client.namespace}", found "{identifier}".')
        found = self.find(client, name)
        if found is None:
            raise Failure(f"Cannot import {self.kind}", f'There is no {self.kind} "{name}" in {client.namespace}.')
        return self.state_of(found, None)

    # ---- helpers

    @cached_property
    def names(self) -> dict[str, Field]:
        return dict(by_name(self.fields))

    def api(self, client: Client) -> Resources:
        return getattr(client, f"{self.kind}s")

    def find(self, client: Client, name: str) -> Json | None:
        try:
            return self.api(client).get(name)
        except ClientError as error:
            if error.status == 404:
                return None
            raise

    def state_of(self, found: Json, prior: Values | None) -> Values:
        """The state from the server's values; keeps a value of `prior` if it means the same."""
        state = {item.name: self._value_of(item, found, prior) for item in self.fields}
        state[TIMEOUTS] = prior.get(TIMEOUTS) if prior else None
        return conform(self.fields, state, timeouts=True)

    def _value_of(self, item: Field, found: Json, prior: Values | None) -> Any:
        before = prior.get(item.name) if prior else None
        if item.local or item.write_only:
            if before is None or before is Unknown:
                return item.default_of(found) if item.role is Role.DEFAULTED else None
            return before
        value = self.observed(item, found)
        if prior is not None and before is not Unknown and item.equal(before, value, found):
            return before
        return None if item.role is Role.OPTIONAL and value in ("", [], {}) else value

    def observed(self, item: Field, found: Json) -> Any:
        value = found.get(item.source)
        if item.nested and value is not None:
            return {inner.name: value.get(inner.source) for inner in item.nested}
        return value

    def spec_of(self, change: Change) -> Json:
        """The fields to send: all that have a value for a new resource, the changed ones for another. null restores a default."""
        prior = change.prior
        secrets_differ = change.planned[HASH] != prior.get(HASH)
        spec = {}
        for item in self.sent_fields(change.planned):
            value = (change.config if item.write_only else change.planned).get(item.name)
            has_value = value is not None and value is not Unknown and not item.is_zero(value)
            differs = secrets_differ if item.write_only else not item.equal(prior.get(item.name), value, change.planned)
            if (has_value and not prior) or (differs and prior):
                spec[item.source] = sent(value) if has_value else None
        return spec

    def sent_fields(self, planned: Values) -> list[Field]:
        return [item for item in self.fields if item.is_sent]

    def created(self, change: Change) -> Json:
        """Creates the resource and returns it. Repeats a request without an answer once the server is back, since it may not have been
        executed."""
        spec = self.spec_of(change)
        lost: list[ClientError] = []

        def create() -> Json:
            try:
                return self.api(change.client).create(spec)
            except ClientError as error:
                if is_outage(error):
                    lost.append(error)
                elif lost and error.status == 409:
                    summary, name = f'Cannot create {self.kind} "{spec["name"]}"', spec["name"]
                    raise Failure(summary, f"{error}. {LOST_ANSWER.format(lost[-1], name)}") from error
                raise

        return change.waiter.outlast(create)

    def save_found(self, change: Change) -> None:
        """Reads the resource from the server into the state. Keeps the earlier state if the server does not answer."""
        with suppress(ClientError):
            self.save(change, self.api(change.client).get(change.planned["name"]))

    def save(self, change: Change, found: Json) -> None:
        change.saved = known(self.state_of(found, change.planned))

    def timeout_sec(self, values: Values, operation: str, attribute: str) -> float:
        """The time limit. The `timeouts` block takes precedence over the attribute."""
        text = (values.get(TIMEOUTS) or {}).get(operation)
        seconds = seconds_of(text) if text else None
        return seconds if seconds is not None else float(values.get(attribute) or DEFAULT_TIMEOUT_SEC)


def sent(value: Any) -> Any:
    """Drops nulls, which maps and objects of a configuration may contain."""
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value
