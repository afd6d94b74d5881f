"""Definition of an attribute, from which Terraform's schema, plans, requests and the documentation are derived."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tf import schema
from tf.gen import tfplugin_pb2 as pb
from tf.types import Bool, List, Map, Number, String, TfType, Unknown

Values = dict[str, Any]
"""Attribute → value: None, `Unknown`, or what JSON has."""

STRING, NUMBER, BOOL = String(), Number(), Bool()
STRINGS, TEXT_MAP, NUMBER_MAP = List(STRING), Map(STRING), Map(NUMBER)
WRITE_ONLY_TRUE = b"\x58\x01"
"""`bool write_only = 11` of `Schema.Attribute`, protocol 6.8."""


class Role(StrEnum):
    REQUIRED = "Required"
    OPTIONAL = "Optional"
    DEFAULTED = "Defaulted"
    """Optional, with `default` if the configuration has no value."""
    ASSIGNED = "Assigned"
    """Optional. Without a value in the configuration, the server chooses one, by rules that its operator can change."""
    STATUS = "Read-Only"


@dataclass(frozen=True, kw_only=True)
class Field:
    """`default` may be a function of the planned values. `zero`: 0 and "" stand for the default. `local`: the server does not know it.
    `sent`: false for an input that is not part of requests. `write_only`: the server never returns it (`write_only` explains how a change
    is seen). `stable`: a status that no update changes. `replaces`: a change needs a new resource. `follows` names the attributes on which
    the server's choice for an assigned one depends. `api` is the name in the REST interface."""

    name: str
    text: str
    type: TfType = STRING
    role: Role = Role.OPTIONAL
    default: Any = None
    same: Callable[[Any, Any], bool] | None = None
    replaces: bool = False
    local: bool = False
    sent: bool = True
    zero: bool = False
    write_only: bool = False
    stable: bool = False
    sensitive: bool = False
    deprecated: bool = False
    api: str = ""
    follows: tuple[str, ...] = ()
    nested: tuple["Field", ...] = ()

    @property
    def is_input(self) -> bool:
        return self.role is not Role.STATUS

    @property
    def is_sent(self) -> bool:
        return self.is_input and self.sent and not self.local

    @property
    def source(self) -> str:
        return self.api or self.name

    def default_of(self, planned: Values) -> Any:
        return self.default(planned) if callable(self.default) else self.default

    def is_zero(self, value: Any) -> bool:
        return self.zero and value in (0, "") and value is not False

    def equal(self, first: Any, second: Any, values: Values) -> bool:
        """Whether both mean the same to the server. `values` are those that the default depends on."""
        if first is Unknown or second is Unknown:
            return first is second
        first, second = (self.default_of(values) if self.is_zero(value) else value for value in (first, second))
        if self.role is Role.OPTIONAL and _is_empty(first) and _is_empty(second):
            return True
        return first == second or (self.same is not None and self.same(first, second))

    def attribute(self) -> schema.Attribute:
        made = _Attribute(
            self.name,
            self.type,
            description=self.text,
            required=self.role is Role.REQUIRED,
            optional=self.role in (Role.OPTIONAL, Role.DEFAULTED, Role.ASSIGNED),
            computed=self.role in (Role.DEFAULTED, Role.ASSIGNED, Role.STATUS),
            sensitive=self.sensitive,
            deprecated=self.deprecated,
        )
        made.nested = [inner.attribute() for inner in self.nested]
        made.write_only = self.write_only
        return made


class _Attribute(schema.Attribute):
    """Adds what the library's Attribute lacks: objects with nested attributes, and write-only attributes."""

    nested: list[schema.Attribute]
    write_only: bool

    def to_pb(self) -> pb.Schema.Attribute:
        made = super().to_pb()
        if self.nested:
            made.ClearField("type")
            inner = [attribute.to_pb() for attribute in self.nested]
            made.nested_type.CopyFrom(pb.Schema.Object(attributes=inner, nesting=pb.Schema.Object.NestingMode.SINGLE))
        if self.write_only:
            # The library's messages are older than this field, but keep unknown fields. Terraform before 1.11 ignores it.
            made.MergeFromString(WRITE_ONLY_TRUE)
        return made


class TimeoutsBlock(schema.NestedBlock):
    """`timeouts { create = "10m" }`"""

    def __init__(self) -> None:
        operations = ("create", "update", "delete")
        attributes = [
            schema.Attribute(name, STRING, description=f"Longest time that a {name} may take, such as `90s` or `10m`.", optional=True)
            for name in operations
        ]
        super().__init__("timeouts", schema.NestMode.Single, schema.Block(attributes=attributes))


def same_json(first: Any, second: Any) -> bool:
    """For `same`: equal JSON texts apart from whitespace and the order of keys. An empty text is an empty event."""
    return _json_of(first) == _json_of(second)


def by_name(fields: tuple[Field, ...]) -> Mapping[str, Field]:
    return {field.name: field for field in fields}


def _json_of(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text or "{}")
    except ValueError:
        return (text,)


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == {}
